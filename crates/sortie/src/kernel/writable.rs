//! Kernels with bindings that they may write, though they do not.
//!
//! wgpu tracks a buffer as a whole: in one dispatch, it is bound to bindings that are declared `read`, or to bindings
//! that are declared `read_write`. So where a kernel writes a part of a buffer and reads another part through another
//! binding, both must be declared `read_write`.
//!
//! Bound: [`MAX_FORMS`] forms per kernel; the oldest is dropped (recordings that use it keep it).

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Kernel;

/// Programs bind one buffer twice in few ways.
const MAX_FORMS: usize = 8;

/// The bindings that a form may write in addition, and the form.
type Form = (SmallVec<[usize; 4]>, Kernel);

/// The forms of a kernel that were used so far.
#[derive(Default)]
pub(super) struct WritableForms(Mutex<Vec<Form>>);

impl Kernel {
    /// The same kernel, but the device lets it write these storage buffers.
    pub(crate) fn with_writable(&self, bindings: &[usize]) -> Self {
        let known =
            |forms: &[Form]| forms.iter().find(|(known, _)| known[..] == *bindings).map(|(_, form)| form.clone());
        if let Some(form) = known(&self.inner.writable.0.lock()) {
            return form;
        }
        let interface = self.interface().with_writable(bindings);
        let Some(compiled) = self.compiled().with_writable(&interface) else { return self.clone() };
        let form = Self::new(self.device_id(), interface, self.inner.source.clone(), compiled);
        let mut forms = self.inner.writable.0.lock();
        // Another thread may have been first.
        if let Some(form) = known(&forms) {
            return form;
        }
        let dropped = (forms.len() == MAX_FORMS).then(|| forms.remove(0));
        forms.push((bindings.into(), form.clone()));
        drop(forms);
        // Outside the lock: it may free pipelines.
        drop(dropped);
        form
    }
}
