//! How long kube-scheduler took for a pod, from the histogram in its own metrics.

/// From taking the pod out of the queue to having bound it.
const FAMILY: &str = "scheduler_scheduling_attempt_duration_seconds";

/// The attempts that ended with a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Attempts {
    /// Upper bounds in seconds, each with how many took that long at most; ascending.
    buckets: Vec<(f64, f64)>,
    seconds: f64,
    pub(super) count: f64,
}

impl Attempts {
    /// All of a scheduler's life so far, its profiles together; none where it has not bound a pod yet.
    pub(super) fn read(page: &str) -> Result<Self, String> {
        let mut read = Self::default();
        for line in page.lines() {
            let Some(rest) = line.strip_prefix(FAMILY) else { continue };
            let odd = || format!("kube-scheduler's metrics have the odd line {line:?}");
            let (part, rest) = rest.split_once('{').ok_or_else(odd)?;
            let (labels, value) = rest.rsplit_once("} ").ok_or_else(odd)?;
            if label(labels, "result") != Some("scheduled") {
                continue;
            }
            let value: f64 = value.trim().parse().map_err(|_| odd())?;
            match part {
                "_bucket" => {
                    // The bound of the last one is written +Inf, which is read like any number.
                    let bound = label(labels, "le").and_then(|bound| bound.parse().ok()).ok_or_else(odd)?;
                    read.add(bound, value);
                }
                "_sum" => read.seconds += value,
                "_count" => read.count += value,
                _ => return Err(odd()),
            }
        }
        Ok(read)
    }

    fn add(&mut self, bound: f64, value: f64) {
        match self.buckets.binary_search_by(|(known, _)| known.total_cmp(&bound)) {
            Ok(at) => self.buckets[at].1 += value,
            Err(at) => self.buckets.insert(at, (bound, value)),
        }
    }

    /// What has come since an earlier look at the same scheduler.
    pub(super) fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (bound, count) in &before.buckets {
            since.add(*bound, -count);
        }
        since.seconds -= before.seconds;
        since.count -= before.count;
        since
    }

    /// In milliseconds, exact.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.seconds / self.count * 1e3)
    }

    /// In milliseconds, as Prometheus estimates it: evenly spread within a bucket, each of which is twice the one before.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = self.count * share;
        let at = self.buckets.iter().position(|(_, count)| *count >= wanted && *count > 0.0)?;
        let (upper, count) = self.buckets[at];
        let (lower, below) = at.checked_sub(1).map_or((0.0, 0.0), |previous| self.buckets[previous]);
        let seconds = if upper.is_finite() {
            lower + (upper - lower) * (wanted - below) / (count - below)
        } else {
            lower
        };
        Some(seconds * 1e3)
    }
}

/// The value of a label; none of those here has a quotation mark in it.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|one| one.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"# HELP scheduler_scheduling_attempt_duration_seconds [STABLE] Scheduling attempt latency
# TYPE scheduler_scheduling_attempt_duration_seconds histogram
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="0.001"} 0
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="0.002"} 10
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="0.004"} 40
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="+Inf"} 42
scheduler_scheduling_attempt_duration_seconds_sum{profile="a",result="scheduled"} 0.126
scheduler_scheduling_attempt_duration_seconds_count{profile="a",result="scheduled"} 42
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="0.001"} 8
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="0.002"} 8
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="0.004"} 8
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="+Inf"} 8
scheduler_scheduling_attempt_duration_seconds_sum{profile="b",result="scheduled"} 0.004
scheduler_scheduling_attempt_duration_seconds_count{profile="b",result="scheduled"} 8
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="unschedulable",le="+Inf"} 1e+06
scheduler_scheduling_attempt_duration_seconds_sum{profile="a",result="unschedulable"} 9
scheduler_scheduling_attempt_duration_seconds_count{profile="a",result="unschedulable"} 1e+06
scheduler_pending_pods{queue="active"} 3
"#;

    fn read() -> Attempts {
        Attempts::read(PAGE).expect("it is a page of kube-scheduler")
    }

    #[test]
    fn profiles_are_added_up_and_attempts_without_a_node_left_out() {
        let buckets = vec![(0.001, 8.0), (0.002, 18.0), (0.004, 48.0), (f64::INFINITY, 50.0)];
        assert_eq!(read(), Attempts { buckets, seconds: 0.13, count: 50.0 });
        assert!((read().mean().expect("there are some") - 2.6).abs() < 1e-9);
    }

    #[test]
    fn quantiles_lie_within_their_bucket_and_past_the_last_bound_nothing_is_known() {
        let quantiles = [0.08, 0.16, 0.36, 0.66, 0.99, 1.0].map(|share| read().quantile(share));
        let expected = [0.5, 1.0, 2.0, 3.0, 4.0, 4.0];
        for (quantile, expected) in quantiles.into_iter().zip(expected) {
            assert!((quantile.expect("there are some") - expected).abs() < 1e-9, "{quantiles:?}");
        }
    }

    #[test]
    fn what_was_there_before_does_not_count() {
        let nothing = read().since(&read());
        assert_eq!((nothing.mean(), nothing.quantile(0.5)), (None, None));
        assert_eq!(read().since(&Attempts::default()), read());
        let before = Attempts { buckets: vec![(0.001, 8.0), (0.002, 8.0)], seconds: 0.004, count: 8.0 };
        let since = read().since(&before);
        assert_eq!(since.buckets[..2], [(0.001, 0.0), (0.002, 10.0)]);
    }

    #[test]
    fn a_scheduler_that_has_bound_nothing_has_none() {
        let none = Attempts::read("scheduler_pending_pods{queue=\"active\"} 3\n");
        assert_eq!(none, Ok(Attempts::default()));
        assert_eq!((Attempts::default().mean(), Attempts::default().quantile(0.5)), (None, None));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        let line = "scheduler_scheduling_attempt_duration_seconds_sum{result=\"scheduled\"} long";
        assert_eq!(Attempts::read(line), Err(format!("kube-scheduler's metrics have the odd line {line:?}")));
    }
}
