//! Compile-time messages are a feature: each file in `args`, `signature` and `types` must be refused with exactly the text beside it,
//! and each in `pass` must compile and run. To accept changed messages after reading them: `TRYBUILD=overwrite cargo test -p idem-ui-tests`.

#[test]
fn messages() {
    let cases = trybuild::TestCases::new();
    for group in ["args", "signature", "types"] {
        cases.compile_fail(format!("{group}/*.rs"));
    }
    cases.pass("pass/*.rs");
}
