//! The two devices that are compared.

use std::sync::LazyLock;

use sortie::Device;

use crate::drivers::{cpu, open, say};

type Named = (&'static str, Device);

/// The built-in CPU device and lavapipe; while there is no such device, lavapipe and SwiftShader.
pub(crate) fn pair() -> Option<(&'static Named, &'static Named)> {
    static PAIR: LazyLock<Option<(Named, Named)>> = LazyLock::new(|| {
        let pair = cpu()
            .map(|cpu| ("cpu", cpu))
            .into_iter()
            .chain(["llvmpipe", "swiftshader"].into_iter().filter_map(|driver| Some((driver, open(driver)?))));
        let mut pair = pair.take(2);
        let both = pair.next().zip(pair.next());
        if both.is_none() {
            say("SKIPPED: random kernels need two devices");
        }
        both
    });
    PAIR.as_ref().map(|(one, other)| (one, other))
}
