//! With whom kube-scheduler places pods: nobody, an extender in Go that decides nothing, ours, Intel TAS.

use std::sync::Arc;

use testbed::component::{Component, Start};
use testbed::programs::DO_NOTHING_EXTENDER;
use testbed::tas::{Payload, Replica};
use testbed::{Scheduler, http};

use super::pods::Asking;
use crate::arena::{Arena, Trouble};
use crate::peers::IntelTas;

/// One of them. Each runs in its own turn only.
pub(super) enum Subject {
    Nobody,
    Nothing { component: Arc<Component>, port: u16 },
    Ours(Replica),
    Intel(IntelTas),
}

impl Subject {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Nobody => "no extender",
            Self::Nothing { .. } => "do-nothing, Go, HTTP",
            Self::Ours(_) => "tas serve, TLS",
            Self::Intel(_) => "Intel TAS + adapter",
        }
    }

    /// Starts the one that decides nothing.
    pub(super) fn nothing(arena: &Arena) -> Result<Self, Trouble> {
        let port = arena.cluster.port()?;
        let component = arena.cluster.attach(Start {
            name: DO_NOTHING_EXTENDER.name.to_owned(),
            binary: arena.cluster.binaries().path(&DO_NOTHING_EXTENDER).to_owned(),
            arguments: vec!["--listen".to_owned(), format!("127.0.0.1:{port}")],
            environment: Vec::new(),
        })?;
        Ok(Self::Nothing { component, port })
    }

    pub(super) fn components(&self) -> Vec<&Component> {
        match self {
            Self::Nobody => Vec::new(),
            Self::Nothing { component, .. } => vec![component],
            Self::Ours(ours) => vec![&ours.component],
            Self::Intel(theirs) => theirs.components().to_vec(),
        }
    }

    /// Starts it again and waits until it knows all it needs.
    pub(super) async fn wake(&self, arena: &Arena) -> Result<(), Trouble> {
        self.components().iter().try_for_each(|component| component.restart())?;
        match self {
            Self::Nobody => Ok(()),
            Self::Nothing { component, port } => {
                let url = format!("http://127.0.0.1:{port}/answered");
                Ok(arena.cluster.ready(component, || http::get(&url)).await?)
            }
            Self::Ours(ours) => arena.ours_knows(ours).await,
            Self::Intel(theirs) => arena.theirs_knows(theirs).await,
        }
    }

    pub(super) fn end(&self) {
        self.components().iter().for_each(|component| component.kill());
    }

    pub(super) fn asking(&self) -> Asking {
        if matches!(self, Self::Nobody) { Asking::Nobody } else { Asking::Extender }
    }

    /// How many questions it has answered since it was started, if it can tell.
    pub(super) async fn answered(&self) -> Result<Option<f64>, Trouble> {
        match self {
            Self::Nobody | Self::Intel(_) => Ok(None),
            Self::Nothing { port, .. } => {
                let page = http::get(&format!("http://127.0.0.1:{port}/answered")).await?;
                Ok(Some(std::str::from_utf8(&page)?.trim().parse()?))
            }
            Self::Ours(ours) => Ok(ours.value("tas_server_requests_total{server=\"scheduler\"}").await?),
        }
    }

    /// The scheduler that asks it, with the same profiles for all.
    pub(super) fn scheduler(&self, arena: &Arena) -> Scheduler {
        let extender = match self {
            Self::Ours(ours) => return arena.installation.scheduler(Payload::NamesOnly, ours.port),
            Self::Intel(theirs) => return arena.installation.scheduler(Payload::FullNodes, theirs.port),
            Self::Nobody => String::new(),
            Self::Nothing { port, .. } => format!(
                "extenders:\n\
                 - urlPrefix: http://127.0.0.1:{port}\n\
                 \x20 filterVerb: scheduler/filter\n\
                 \x20 prioritizeVerb: scheduler/prioritize\n\
                 \x20 weight: {}\n\
                 \x20 nodeCacheCapable: true\n\
                 \x20 httpTimeout: {}\n\
                 \x20 ignorable: true\n\
                 \x20 managedResources:\n\
                 \x20 - name: {}\n\
                 \x20   ignoredByScheduler: true\n",
                api::scheduler::TELEMETRY_WEIGHT,
                api::scheduler::HTTP_TIMEOUT,
                api::keys::SCHEDULING_RESOURCE,
            ),
        };
        Scheduler::configured(format!(
            "{}profiles:\n\
             - schedulerName: default-scheduler\n\
             - schedulerName: secondary-scheduler\n\
             {extender}",
            testbed::scheduler::PLAIN
        ))
    }
}
