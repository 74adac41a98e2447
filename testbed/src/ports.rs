//! Loopback ports for a cluster: a block of neighbours, held by a file lock for the cluster's life.
//!
//! Ports that the system hands out would be free only until the next outgoing connection takes one, so blocks are
//! chosen below that range. The lock keeps two clusters apart even while a component of one is restarting, and the
//! system drops it when its holder dies.

use std::fs::{self, File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use crate::places::FileTrouble;

/// The first port of the first block.
const FIRST: u16 = 15_000;
/// Ports in a block.
const SIZE: u16 = 20;
/// Blocks, ending below 32768 where outgoing connections begin.
const BLOCKS: u16 = 850;

/// No ports to be had.
#[derive(Debug, thiserror::Error)]
pub enum PortsError {
    /// Every block is held or has a foreign listener in it.
    #[error(
        "no free block of {SIZE} ports between {FIRST} and {}; end other test clusters (cargo xtask cluster status)",
        FIRST + BLOCKS * SIZE - 1
    )]
    NoneFree,
    /// The cluster wants more ports than its block has.
    #[error("a cluster has {SIZE} ports and all are given away; start fewer programs in it")]
    BlockUsedUp,
    /// A port that was asked for by number is in use.
    #[error(
        "port {port} on 127.0.0.1 is taken; end what listens there, or choose another with --api-port, or leave it out"
    )]
    Taken {
        /// The port.
        port: u16,
    },
    /// The lock could not be made.
    #[error(transparent)]
    File(#[from] FileTrouble),
}

/// A block of ports that nobody else of us will use.
#[derive(Debug)]
pub struct Ports {
    next: u16,
    end: u16,
    _held: File,
}

impl Ports {
    /// Takes the first free block, beginning the search at one that `seed` chooses.
    pub fn reserve(state: &Path, seed: u32) -> Result<Self, PortsError> {
        let directory = state.join("ports");
        fs::create_dir_all(&directory).map_err(|cause| FileTrouble::new("create", &directory, cause))?;
        for step in 0..u32::from(BLOCKS) {
            let block = (seed % u32::from(BLOCKS) + step) % u32::from(BLOCKS);
            let first = FIRST + u16::try_from(block).unwrap_or_default() * SIZE;
            let path = directory.join(first.to_string());
            let file = File::create(&path).map_err(|cause| FileTrouble::new("create", &path, cause))?;
            match file.try_lock() {
                Ok(()) if (first..first + SIZE).all(is_free) => {
                    return Ok(Self { next: first, end: first + SIZE, _held: file });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(cause)) => return Err(FileTrouble::new("lock", &path, cause).into()),
            }
        }
        Err(PortsError::NoneFree)
    }

    /// The next port of the block.
    pub fn take(&mut self) -> Result<u16, PortsError> {
        if self.next == self.end {
            return Err(PortsError::BlockUsedUp);
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// Refuses a port that somebody listens on.
pub fn check_free(port: u16) -> Result<u16, PortsError> {
    if is_free(port) { Ok(port) } else { Err(PortsError::Taken { port }) }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn two_clusters_with_the_same_seed_get_different_ports() {
        let scratch = Scratch::new();
        let mut one = Ports::reserve(scratch.path(), 7).expect("a block");
        let mut two = Ports::reserve(scratch.path(), 7).expect("another block");
        assert_ne!(one.take().expect("a port"), two.take().expect("a port"));
    }

    #[test]
    fn a_block_with_a_foreign_listener_is_passed_over() {
        let scratch = Scratch::new();
        let mut ports = Ports::reserve(scratch.path(), 11).expect("a block");
        let taken = ports.take().expect("a port");
        drop(ports);
        let _foreign = TcpListener::bind((Ipv4Addr::LOCALHOST, taken)).expect("it was free");
        let mut next = Ports::reserve(scratch.path(), 11).expect("another block");
        assert_ne!(next.take().expect("a port"), taken);
    }

    #[test]
    fn a_block_ends() {
        let scratch = Scratch::new();
        let mut ports = Ports::reserve(scratch.path(), 23).expect("a block");
        for _ in 0..SIZE {
            ports.take().expect("the block has that many");
        }
        assert!(matches!(ports.take(), Err(PortsError::BlockUsedUp)));
    }

    #[test]
    fn a_taken_port_names_the_way_out() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("some port");
        let port = listener.local_addr().expect("it is bound").port();
        assert_eq!(
            check_free(port).expect_err("it is taken").to_string(),
            format!(
                "port {port} on 127.0.0.1 is taken; end what listens there, or choose another with --api-port, \
                 or leave it out"
            )
        );
    }
}
