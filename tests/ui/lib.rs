//! Nothing: the cases are beside this file, and `ui.rs` runs them.
