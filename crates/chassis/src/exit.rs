//! What the exit codes of our processes mean. This table is the only place that defines them.

use std::process::{ExitCode, Termination};

/// How a process of ours ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Asked to stop, and all requests in flight were finished.
    Stopped,
    /// A defect or an unforeseen failure.
    Failed,
    /// The arguments are wrong. The argument parser uses the same code.
    Usage,
    /// A file that the arguments name cannot be used: certificate, key, CA, kubeconfig, configuration.
    Configuration,
    /// An address cannot be listened on.
    Address,
    /// Asked to stop, but requests in flight were cut at the drain deadline.
    Cut,
    /// Something we cannot work without was lost for good, such as the leader's lease or a vital task.
    Lost,
}

impl Exit {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 7] =
        [Self::Stopped, Self::Failed, Self::Usage, Self::Configuration, Self::Address, Self::Cut, Self::Lost];

    /// The code that the parent process sees.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// For documents and `--help`.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Stopped => "asked to stop; all requests in flight were finished",
            Self::Failed => "a defect or an unforeseen failure; the log has the details",
            Self::Usage => "wrong arguments",
            Self::Configuration => "a certificate, key, CA, kubeconfig or configuration file cannot be used",
            Self::Address => "an address cannot be listened on",
            Self::Cut => "asked to stop; requests in flight were cut at the drain deadline",
            Self::Lost => "something vital was lost, such as the leader's lease; start again",
        }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

impl From<crate::serve::Drained> for Exit {
    fn from(drained: crate::serve::Drained) -> Self {
        if drained.cut == 0 { Self::Stopped } else { Self::Cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_never_change_their_meaning() {
        let table: Vec<_> =
            Exit::ALL.iter().map(|exit| format!("{} {}", exit.code(), exit.meaning())).collect();
        insta::assert_snapshot!(table.join("\n"), @r#"
        0 asked to stop; all requests in flight were finished
        1 a defect or an unforeseen failure; the log has the details
        2 wrong arguments
        3 a certificate, key, CA, kubeconfig or configuration file cannot be used
        4 an address cannot be listened on
        5 asked to stop; requests in flight were cut at the drain deadline
        6 something vital was lost, such as the leader's lease; start again
        "#);
    }
}
