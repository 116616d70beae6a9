//! Listens to the validation layer, which speaks through wgpu-hal's log.

use std::sync::Once;

use parking_lot::Mutex;

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Listener;

impl log::Log for Listener {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn && metadata.target().starts_with("wgpu_hal::vulkan")
    }

    fn log(&self, record: &log::Record<'_>) {
        let text = record.args().to_string();
        // Missing drivers and displays are no business of the layer's.
        let layer = text.contains("VALIDATION") || text.contains("validation") || text.contains("VUID");
        if self.enabled(record.metadata()) && layer {
            HEARD.lock().push(text);
        }
    }

    fn flush(&self) {}
}

/// Starts to listen. From here on a missing layer is heard too: wgpu-hal warns when it was asked for and is not there.
pub(crate) fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Listener).expect("no other logger");
        log::set_max_level(log::LevelFilter::Warn);
    });
}

/// The layer has had nothing to say.
pub(crate) fn assert_silent() {
    let heard = HEARD.lock();
    let missing = heard.iter().any(|text| text.contains("unable to find layer"));
    if missing && std::env::var_os("SORTIE_REQUIRE_GPU").is_none() {
        return;
    }
    assert!(heard.is_empty(), "the validation layer says: {}", heard.join("\n"));
}
