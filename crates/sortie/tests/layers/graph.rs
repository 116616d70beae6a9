//! The module graph of a crate against its table.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    source::{Source, Target},
    table::Table,
};

/// Crates whose use is a matter of layers; others are listed nowhere.
const LAYERED: [&str; 10] = [
    "ash",
    "gemm",
    "matrixmultiply",
    "naga",
    "rayon",
    "sortie_batcher",
    "sortie_cpu",
    "sortie_plan",
    "wgpu",
    "wgpu_naga_bridge",
];

/// Which rows name which, and where.
type Edges<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>;

/// Everything that is wrong.
pub(crate) fn check(source: &Source, table: &Table) -> Vec<String> {
    let (mut edges, mut crates, mut wrong) = (Edges::new(), Edges::new(), Vec::new());
    for (path, module) in source.modules.iter().filter(|(path, _)| !path.is_empty()) {
        let Some(row) = table.row_of(path) else {
            wrong.push(format!("{} has no row", module.file));
            continue;
        };
        for named in &module.named {
            match source.resolve(path, named) {
                Some(Target::Module(target)) => {
                    if let Some(used) = table.row_of(&target).filter(|used| *used != row) {
                        edges.entry((row, used)).or_default().insert(&module.file);
                    }
                }
                Some(Target::Crate(name)) => {
                    if let Some(name) = LAYERED.into_iter().find(|layered| *layered == name) {
                        crates.entry((row, name)).or_default().insert(&module.file);
                    }
                }
                None => {}
            }
        }
    }
    let found = |edges: &Edges<'_>| {
        edges.keys().map(|(row, used)| ((*row).to_owned(), (*used).to_owned())).collect::<BTreeSet<_>>()
    };
    let allowed = |of: fn(&super::table::Row) -> &BTreeSet<String>| {
        let pairs =
            table.rows.iter().flat_map(|(row, cells)| of(cells).iter().map(move |used| (row.clone(), used.clone())));
        pairs.collect::<BTreeSet<_>>()
    };
    for (edges, allowed) in [(&edges, allowed(|row| &row.uses)), (&crates, allowed(|row| &row.crates))] {
        let forbidden = edges.iter().filter(|((row, used), _)| !allowed.contains(&((*row).into(), (*used).into())));
        wrong.extend(forbidden.map(|((row, used), files)| format!("{row} must not use {used}, but does in {files:?}")));
        let unused = allowed.difference(&found(edges)).cloned().collect::<Vec<_>>();
        wrong.extend(unused.into_iter().map(|(row, used)| format!("{row} may use {used}, but does not")));
    }
    wrong.extend(in_cycles(&edges).into_iter().map(|module| format!("{module} is in a cycle")));
    let folders = table.rows.keys().filter(|row| !source.modules.contains_key(&names(row)));
    wrong.extend(folders.map(|row| format!("there is no module {row}")));
    wrong
}

fn names(row: &str) -> Vec<String> {
    row.split('/').map(str::to_owned).collect()
}

/// Modules that lead back to themselves.
fn in_cycles<'a>(edges: &Edges<'a>) -> BTreeSet<&'a str> {
    let reaches_itself = |start: &&'a str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![*start]);
        while let Some(module) = open.pop() {
            let next = edges.keys().filter(|(from, _)| *from == module).map(|(_, to)| *to);
            open.extend(next.filter(|to| seen.insert(*to)));
        }
        seen.contains(start)
    };
    edges.keys().map(|(from, _)| *from).filter(reaches_itself).collect()
}
