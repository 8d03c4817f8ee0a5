//! The fault proxy does what its rules say, over HTTP/1.1 and HTTP/2.

mod before_bed;
mod faults;
mod record;
mod rig;
mod streams;
