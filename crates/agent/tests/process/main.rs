//! The real binary on loopback: what callers see, what hostile callers see, signals, TLS and users.

mod hostile;
mod serving;
mod started;
mod web_config;
