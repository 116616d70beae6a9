//! Programs as users write them, which must compile and run. What must not compile is in the docs of `Tensor`.

#[test]
fn tensors_read_like_arithmetic() {
    trybuild::TestCases::new().pass("tests/compile/pass/*.rs");
}
