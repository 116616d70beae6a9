//! Programs as users write them, which must compile and run. What must not compile is in the docs of `Tensor`.
//!
//! They are modules of this test, not `trybuild` cases: `trybuild` compiles all dependencies a second time.

mod functions;
mod nested;
