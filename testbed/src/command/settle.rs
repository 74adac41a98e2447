//! `testbed cluster settle`: waits until what a person changed has reached `tas`.

use std::time::Duration;

use anyhow::bail;
use api::policy::TasPolicy;
use kube::api::{Api, ListParams};

use super::inspect::{find, kubeconfig};
use crate::cluster::start::client_of;
use crate::tas::reading;
use crate::wait::until;

/// Longer than it takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// Readings of metrics to wait for: a value set now is scraped before the second, and read by the third at the latest.
const READINGS: f64 = 3.0;

pub(super) fn settle(name: &str) -> anyhow::Result<()> {
    let one = find(name)?;
    let Some(admin) = one.card.as_ref().filter(|_| one.alive).and_then(|card| card.tas.clone()) else {
        bail!("there is no tas in cluster {name:?}; start it without --without-tas");
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = client_of(&kubeconfig(&one.path)).await?;
        let policies: Api<TasPolicy> = Api::all(client);
        let count = policies.list_metadata(&ListParams::default()).await?.items.len();
        let policies = f64::from(u32::try_from(count)?);
        let before = reading(&admin, "tas_feed_readings_total").await.map_err(anyhow::Error::msg)?;
        let enough = before.unwrap_or_default() + READINGS;
        until("tas to have seen everything", PATIENCE, || async {
            let known = reading(&admin, "tas_feed_policies").await?;
            let read = reading(&admin, "tas_feed_readings_total").await?;
            if known == Some(policies) && read.is_some_and(|read| read >= enough) {
                return Ok(());
            }
            Err(format!("{known:?} of {policies} policies, {read:?} readings"))
        })
        .await?;
        Ok(())
    })
}
