//! One test per bug found, each failing without its fix.

mod exit;
