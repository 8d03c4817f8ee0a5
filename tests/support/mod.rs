//! What the integration tests stand on.
#![allow(dead_code, reason = "a test bed offers more than the tests of today use")]
