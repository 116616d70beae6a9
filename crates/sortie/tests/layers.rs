//! The layer table of ARCHITECTURE.md, checked: who may name whom.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// One row: a module of the crate, the modules it may name, and the crates below it that it may name.
struct Layer {
    module: &'static str,
    may: &'static [&'static str],
    crates: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    Layer { module: "error", may: &[], crates: &[] },
    Layer { module: "exit", may: &[], crates: &[] },
    Layer { module: "file", may: &[], crates: &[] },
    Layer { module: "metrics", may: &["policy"], crates: &[] },
    Layer { module: "policy", may: &[], crates: &["sortie_plan"] },
    Layer { module: "memory", may: &["device", "error", "exit", "metrics"], crates: &["wgpu"] },
    Layer {
        module: "kernel",
        may: &["device", "error", "exit", "metrics"],
        crates: &["wgpu", "wgpu_naga_bridge", "naga", "sortie_cpu"],
    },
    Layer {
        module: "submit",
        may: &["device", "encode", "error", "exit", "memory", "metrics", "policy", "profile"],
        crates: &["wgpu", "sortie_plan"],
    },
    Layer {
        module: "encode",
        may: &["cpu", "device", "error", "exit", "kernel", "memory", "metrics", "policy", "profile"],
        // naga: how a native replay wants its kernels written.
        crates: &["wgpu", "naga", "sortie_plan"],
    },
    Layer {
        module: "cpu",
        may: &["device", "encode", "error", "kernel", "memory", "metrics", "profile"],
        crates: &["sortie_cpu", "sortie_plan"],
    },
    Layer {
        module: "device",
        may: &["encode", "error", "exit", "file", "memory", "metrics", "policy", "profile", "submit", "tune"],
        crates: &["wgpu"],
    },
    Layer {
        module: "replay",
        may: &["batch", "device", "encode", "error", "memory", "metrics", "policy", "profile", "submit", "tensor"],
        crates: &[],
    },
    Layer {
        module: "tune",
        may: &["batch", "device", "error", "file", "kernel", "memory", "policy", "submit"],
        crates: &["sortie_plan"],
    },
    Layer {
        module: "batcher",
        may: &["batch", "device", "error", "exit", "fleet", "kernel", "replay", "submit", "tensor"],
        crates: &[],
    },
    Layer { module: "fleet", may: &["device", "error"], crates: &[] },
    Layer { module: "stream", may: &["batch", "device", "error", "kernel", "replay", "submit", "tensor"], crates: &[] },
    Layer { module: "tensor", may: &["batch", "error"], crates: &["sortie_plan"] },
    Layer {
        module: "batch",
        may: &["device", "encode", "error", "kernel", "memory", "metrics", "policy", "profile", "submit"],
        crates: &["sortie_plan"],
    },
    // What is told to it is plain data; whoever watches asks a device for that.
    Layer { module: "profile", may: &["device", "error", "exit", "submit"], crates: &[] },
];

/// Crates whose use is a matter of layers.
const WATCHED: [&str; 5] = ["wgpu", "wgpu_naga_bridge", "naga", "sortie_cpu", "sortie_plan"];

#[test]
fn no_module_names_one_that_its_layer_must_not_know() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut broken = Vec::new();
    for layer in LAYERS {
        for file in files(&source, layer.module) {
            let code = code_of(&file);
            let modules = named_modules(&code);
            let forbidden =
                modules.iter().filter(|module| *module != layer.module && !layer.may.contains(&module.as_str()));
            broken.extend(forbidden.map(|module| format!("{} names crate::{module}", file.display())));
            let crates = WATCHED.iter().filter(|name| !layer.crates.contains(name) && names_crate(&code, name));
            broken.extend(crates.map(|name| format!("{} names {name}", file.display())));
        }
    }
    assert!(broken.is_empty(), "layers broken:\n{}", broken.join("\n"));
}

#[test]
fn every_module_has_its_row() {
    let lib = code_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let declared: BTreeSet<_> =
        lib.lines().filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';')).map(str::to_owned).collect();
    let rows: BTreeSet<_> = LAYERS.iter().map(|layer| layer.module.to_owned()).collect();
    assert_eq!(declared, rows);
}

#[test]
fn the_planner_knows_no_device_thread_clock_or_file() {
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sortie-plan");
    let manifest = fs::read_to_string(plan.join("Cargo.toml")).expect("the planner's manifest");
    let dependencies =
        manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]")).unwrap_or_default();
    let only = dependencies.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("smallvec"));
    assert_eq!(only.collect::<Vec<_>>(), Vec::<&str>::new(), "dependencies of the planner");
    for file in files(&plan.join("src"), "") {
        let code = code_of(&file);
        for name in ["std::thread", "std::time", "std::fs", "std::net", "wgpu", "naga", "unsafe"] {
            assert!(!code.contains(name), "{} names {name}", file.display());
        }
    }
}

#[test]
fn the_check_sees_what_it_looks_for() {
    let code = "use crate::{\n    device::{Gpu, Shared},\n    submit::Ticket,\n};\nfn f() -> crate::error::Error { wgpu::x() }";
    assert_eq!(named_modules(code).into_iter().collect::<Vec<_>>(), ["device", "error", "submit"]);
    assert!(names_crate(code, "wgpu") && !names_crate(code, "naga"));
    assert!(!names_crate("mod wgpu_thing; let my_wgpu = 1;", "wgpu"));
}

/// The files of a module: `name.rs`, or all below `name/`; with no name, all.
fn files(source: &Path, module: &str) -> Vec<PathBuf> {
    let single = source.join(format!("{module}.rs"));
    if !module.is_empty() && single.is_file() {
        return vec![single];
    }
    let folder = source.join(module);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// A file without its comments and its own tests.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The modules named after `crate::`, in a path or at the top level of a braced list.
fn named_modules(code: &str) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut item = String::new();
            for c in list.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => modules.extend(first_word(&std::mem::take(&mut item))),
                    _ if depth == 0 => item.push(c),
                    _ => {}
                }
            }
            modules.extend(first_word(&item));
        } else {
            modules.extend(first_word(rest));
        }
    }
    modules
}

fn first_word(text: &str) -> Option<String> {
    let word: String = text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!word.is_empty()).then_some(word)
}

fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}
