//! The page that `sortie demo --report` writes, in a browser.

use std::{
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A directory, gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sortie-report-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a directory");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn demo(report: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
    command.args(["demo", "--quick", "--device", "cpu", "--report"]).arg(report).env_remove("SORTIE_DEVICE");
    command.output().expect("it runs")
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The page of a run that went well.
fn page(place: &Place) -> (PathBuf, String) {
    let path = place.path("demo.html");
    let output = demo(&path);
    assert!(output.status.success(), "{}{}", told(&output.stdout), told(&output.stderr));
    let page = fs::read_to_string(&path).expect("the report");
    (path, page)
}

/// What opens the page. Without one the tests below cannot tell anything, and say so.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn browser() -> Option<&'static str> {
    let known = ["chromium", "chromium-browser", "google-chrome"];
    let found = known.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    let required = std::env::var_os("SORTIE_REQUIRE_GPU").is_some();
    assert!(
        found.is_some() || !required,
        "SORTIE_REQUIRE_GPU is set, but there is no Chromium: scripts/chromium installs it"
    );
    if found.is_none() {
        eprintln!("SKIPPED: there is no Chromium to open the report in; scripts/chromium installs it");
    }
    found
}

/// A page as the browser has it once its scripts have run.
struct Opened {
    dom: String,
    /// What the page said on the console.
    console: Vec<String>,
}

fn open(browser: &str, place: &Place, url: &str, arguments: &[&str]) -> Opened {
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000"]);
    command.args(["--enable-logging=stderr", "--v=0"]).args(arguments);
    command.arg(format!("--user-data-dir={}", place.path("profile").display())).arg(url);
    let output = command.output().expect("the browser runs");
    let errors = told(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let console = errors.lines().filter(|line| line.contains(":CONSOLE")).map(Into::into).collect();
    Opened { dom: told(&output.stdout), console }
}

/// How many colours a picture has, of those that a grid of its pixels has.
fn colours(png: &Path) -> usize {
    let file = BufReader::new(File::open(png).expect("a screenshot"));
    let mut reader = png::Decoder::new(file).read_info().expect("a PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("it fits memory")];
    let info = reader.next_frame(&mut bytes).expect("a frame");
    let pixel = info.color_type.samples();
    let mut all: Vec<&[u8]> = bytes[..info.buffer_size()].chunks_exact(pixel).step_by(7).collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

#[test]
fn the_report_renders_without_a_word_on_the_console() {
    let Some(browser) = browser() else { return };
    let place = Place::new("renders");
    let (path, _) = page(&place);
    let url = format!("file://{}", path.display());
    for (name, size) in [("wide", "1100,3400"), ("narrow", "500,4000")] {
        let Opened { dom, console } = open(browser, &place, &url, &[&format!("--window-size={size}"), "--dump-dom"]);
        assert!(console.is_empty(), "{name}: {console:#?}");
        // The timeline and the curve are shown at any width, and three pieces of work are in the data.
        assert!(dom.contains("data-rendered=\"2 3\""), "{name}: {}", &dom[..dom.len().min(400)]);
        let picture = place.path(&format!("{name}.png"));
        let screenshot = format!("--screenshot={}", picture.display());
        open(browser, &place, &url, &[&format!("--window-size={size}"), &screenshot]);
        // A blank page has one; letters alone, smoothed, some shades of one. There are at least five colours of bars
        // and curves.
        assert!(colours(&picture) > 50, "{name}: {} colours", colours(&picture));
    }
}

#[test]
fn the_browser_would_tell_of_an_error() {
    let Some(browser) = browser() else { return };
    let place = Place::new("broken");
    let path = place.path("broken.html");
    fs::write(&path, "<!doctype html><script>nothing.of.the.kind()</script>").expect("a file");
    let opened = open(browser, &place, &format!("file://{}", path.display()), &["--dump-dom"]);
    assert!(opened.console.iter().any(|line| line.contains("nothing is not defined")), "{:#?}", opened.console);
}

#[test]
fn the_report_needs_nothing_but_itself_and_has_every_figure() {
    let place = Place::new("whole");
    let (_, page) = page(&place);
    // The namespace of SVG is a name, not an address.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for foreign in ["http://", "https://", "src=", "@import", "url(", "{{", "NaN", "inf%"] {
        assert!(!page.contains(foreign), "{foreign} is in the page");
    }
    for part in [
        "4 feed-forward layers",
        "A chain of 100 small ops",
        "1,000 tiny requests",
        "one submission each",
        "fused and replayed",
        "through a Batcher",
        "ops in a submission (log)",
        "device at work",
        "demo --quick --device cpu --report",
        "prefers-color-scheme:dark",
    ] {
        assert!(page.contains(part), "{part:?} is not in the page");
    }
    assert_eq!(page.matches("<svg ").count(), 1);
    // Three lanes, each with a track for the host and one for the device.
    assert_eq!(page.matches("class=\"lane\"").count(), 3);
    assert_eq!(page.matches(">quartiles ").count(), 4 + 4 + 3);
    // Two rounds are too few for a headline.
    assert!(!page.contains("faster together") && page.contains("2 rounds: too few for a ratio"));
    assert_eq!(page.matches("class=\"bar ").count(), 4 + 4 + 3);
    // Four curves of nine lengths.
    assert_eq!(page.matches("<circle ").count(), 4 * 9);
}

#[test]
fn a_report_that_cannot_be_written_is_known_before_the_work() {
    let place = Place::new("nowhere");
    let output = demo(&place.path("no such folder/demo.html"));
    let error = told(&output.stderr);
    assert!(!output.status.success() && error.contains("no such folder/demo.html: "), "{error}");
    assert!(output.stdout.is_empty(), "{}", told(&output.stdout));
}
