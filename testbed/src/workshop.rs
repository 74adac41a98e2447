//! A directory in which the Go toolchain works on one pinned module. What it makes is moved out whole, or not at all.
//!
//! Whoever has the workshop holds the build lock, so anything in it is what a killed one left behind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::modules::Module;
use crate::places::{FileTrouble, Places};

/// The workshop, gone when dropped: on success what counts has been moved out, on failure nothing counts.
pub(crate) struct Workshop(PathBuf);

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Workshop {
    /// An empty one with the module's files.
    pub(crate) fn open(places: &Places, module: &Module) -> Result<Self, FileTrouble> {
        let workshop = Self(places.cache.join("workshop"));
        let _ = fs::remove_dir_all(&workshop.0);
        create(&workshop.output())?;
        let files =
            [("go.mod", Some(module.go_mod)), ("go.sum", Some(module.go_sum)), ("main.go", module.main)];
        for (name, text) in files {
            let file = workshop.path().join(name);
            text.map_or(Ok(()), |text| fs::write(&file, text))
                .map_err(|cause| FileTrouble::new("write", &file, cause))?;
        }
        Ok(workshop)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// What is put here is what counts.
    pub(crate) fn output(&self) -> PathBuf {
        self.0.join("output")
    }

    /// Makes the output the cache's entry.
    pub(crate) fn keep_as(&self, entry: &Path) -> Result<(), FileTrouble> {
        create(entry.parent().unwrap_or(entry))?;
        // One that is there although it was looked for can only be a leftover of something that was not us.
        let _ = fs::remove_dir_all(entry);
        fs::rename(self.output(), entry).map_err(|cause| FileTrouble::new("create", entry, cause))
    }
}

fn create(directory: &Path) -> Result<(), FileTrouble> {
    fs::create_dir_all(directory).map_err(|cause| FileTrouble::new("create", directory, cause))
}
