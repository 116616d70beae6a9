//! The module tables of docs/modules.md, checked against the code: no cycle, no use that a table does not allow, no
//! allowed use that the code does not have.

mod graph;
mod source;
mod table;

use std::{
    fs,
    path::{Path, PathBuf},
};

use self::{graph::check, source::Source, table::Table};

const CRATES: [&str; 9] = [
    "sortie",
    "sortie-plan",
    "sortie-batcher",
    "sortie-cpu",
    "sortie-nn",
    "sortie-states",
    "sortie-cli",
    "sortie-soak",
    "sortie-bench",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn architecture() -> String {
    fs::read_to_string(workspace().join("docs/modules.md")).expect("docs/modules.md")
}

fn src(name: &str) -> PathBuf {
    workspace().join("crates").join(name).join("src")
}

#[test]
fn every_crate_is_as_its_table_says() {
    let page = architecture();
    let wrong = CRATES.into_iter().flat_map(|name| {
        let wrong = check(&Source::read(&src(name)), &Table::read(&page, name));
        wrong.into_iter().map(move |wrong| format!("{name}: {wrong}"))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_planner_knows_no_device_thread_clock_or_file() {
    let plan = workspace().join("crates/sortie-plan");
    // Its hashes are the same in each run.
    let only = dependencies("sortie-plan").into_iter().filter(|name| name != "rustc-hash");
    assert_eq!(only.collect::<Vec<_>>(), Vec::<String>::new(), "dependencies of the planner");
    for module in Source::read(&plan.join("src")).modules.values() {
        for forbidden in ["thread", "time", "fs", "net"] {
            let named = module.named.iter().any(|path| path.starts_with(&["std".into(), forbidden.into()]));
            assert!(!named, "{} names std::{forbidden}", module.file);
        }
    }
}

/// A platform without the standard library's clock must need another clock and nothing else.
#[test]
fn only_the_clock_reads_time() {
    // The batcher has a clock of its own, and workers pass deadlines to another crate.
    const OTHERS: [&str; 2] = ["batcher/", "backend/cpu/threads.rs"];
    let instant = ["std", "time", "Instant"].map(str::to_owned);
    for module in Source::read(&src("sortie")).modules.values() {
        let named = module.named.iter().any(|path| path.starts_with(&instant));
        let may = module.file == "clock.rs" || OTHERS.iter().any(|other| module.file.starts_with(other));
        assert!(!named || may, "{} names std::time::Instant: crate::clock::Instant is ours", module.file);
    }
}

/// Names of the crates that a crate of the workspace is built with, without those of its tests.
fn dependencies(name: &str) -> Vec<String> {
    let path = workspace().join("crates").join(name).join("Cargo.toml");
    let manifest = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]")).unwrap_or_default();
    let lines = section.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned()).collect()
}

/// None of these has wgpu or naga behind it: `cargo tree -p sortie-batcher` shows them all.
#[test]
fn the_batcher_knows_no_device() {
    let expected = ["hdrhistogram", "metrics", "parking_lot", "pollster", "smallvec", "tower-service", "tracing"];
    assert_eq!(dependencies("sortie-batcher"), expected);
}

/// A copy of the planner's sources, and its table.
struct Planted {
    folder: tempfile::TempDir,
    page: String,
}

impl Planted {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        copy(&src("sortie-plan"), folder.path());
        Self { folder, page: architecture() }
    }

    /// Adds a line of code to a file.
    fn plant(&self, file: &str, line: &str) {
        let path = self.folder.path().join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs::write(path, format!("{text}\n{line}\n")).expect("written");
    }

    fn wrong(&self) -> String {
        check(&Source::read(self.folder.path()), &Table::read(&self.page, "sortie-plan")).join("\n")
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, to).expect("copied");
        }
    }
}

#[test]
fn an_unchanged_copy_is_right() {
    assert_eq!(Planted::new().wrong(), "");
}

#[test]
fn a_planted_cycle_is_found_even_where_the_table_allows_its_uses() {
    let mut planted = Planted::new();
    planted.plant("record/access.rs", "fn planted(_: &crate::steps::Plan) {}");
    planted.page = planted.page.replacen("\nrecord:", "\nrecord: steps", 1);
    let wrong = planted.wrong();
    assert!(wrong.contains("record is in a cycle") && wrong.contains("steps is in a cycle"), "{wrong}");
}

#[test]
fn a_planted_use_in_a_nested_folder_is_found() {
    let planted = Planted::new();
    planted.plant("fuse/wgsl.rs", "fn planted(_: &super::super::steps::Touch) {}");
    let wrong = planted.wrong();
    assert!(wrong.contains("fuse must not use steps") && wrong.contains("fuse/wgsl.rs"), "{wrong}");
}

#[test]
fn a_planted_use_through_a_name_at_the_root_is_found() {
    let planted = Planted::new();
    planted.plant("record/span.rs", "fn planted() { assert!(crate::touches as usize > 0); }");
    assert!(planted.wrong().contains("record must not use steps"), "{}", planted.wrong());
}

#[test]
fn an_allowed_use_that_nothing_needs_is_found() {
    let mut planted = Planted::new();
    planted.page = planted.page.replacen("\nrecord:", "\nrecord: steps", 1);
    assert!(planted.wrong().contains("record may use steps, but does not"), "{}", planted.wrong());
}
