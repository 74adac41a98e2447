//! A test, however it ends, leaves no process; a failed one leaves its logs.

use e2e::{cluster_of, started};
use testbed::{Options, processes};

#[tokio::test]
async fn after_the_drop_there_is_neither_process_nor_directory() {
    let cluster = started(Options::default()).await;
    let directory = cluster.directory().to_owned();
    // etcd, API server, controllers, scheduler, KWOK, Prometheus.
    assert_eq!(processes::belonging_to(&directory).len(), 6);
    drop(cluster);
    assert_eq!(processes::belonging_to(&directory), Vec::<u32>::new());
    assert!(!directory.exists());
}

#[test]
fn after_a_panic_there_is_no_process_but_the_logs_are_kept() {
    let failing = std::thread::spawn(|| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let cluster = cluster_of(1).await;
            std::panic::panic_any(cluster.directory().to_owned());
        });
    });
    let panic = failing.join().expect_err("it panics");
    let directory = panic.downcast::<std::path::PathBuf>().expect("with the directory");
    assert_eq!(processes::belonging_to(&directory), Vec::<u32>::new());
    assert!(directory.join("logs/kube-apiserver.log").exists());
    assert!(!directory.join("pki").exists(), "keys are not kept");
    std::fs::remove_dir_all(&*directory).expect("removed");
}
