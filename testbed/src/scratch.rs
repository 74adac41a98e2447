//! A directory for one unit test, gone when the test is over.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::places::Places;

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("testbed-unit-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Places here, with a `go` that is this shell script.
    pub(crate) fn toolchain(&self, script: &str) -> Places {
        let bin = self.0.join("bin");
        fs::create_dir_all(&bin).expect("a directory for go");
        // Written under another name first: a file that is still open for writing cannot be executed.
        fs::write(bin.join("new"), format!("#!/bin/sh\n{script}\n")).expect("the script is written");
        fs::set_permissions(bin.join("new"), fs::Permissions::from_mode(0o755)).expect("made executable");
        fs::rename(bin.join("new"), bin.join("go")).expect("put into place");
        Places { cache: self.0.join("cache"), state: self.0.join("state"), given: None, path: vec![bin] }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
