//! Flags as Go's flag package takes them: `-port 9001` for `--port 9001`. Intel's manifests are written that way.

use std::collections::BTreeSet;
use std::ffi::OsString;

/// Turns `-name` and `-name=value` into `--name` and `--name=value` where `name` is one of the long flags. All else,
/// single letters and what follows `--` above all, stays as it is.
pub fn normalise<I>(args: I, long_flags: &BTreeSet<String>) -> Vec<OsString>
where
    I: IntoIterator<Item = OsString>,
{
    let mut rest_is_verbatim = false;
    let doubled = |arg: OsString| -> OsString {
        let Some(text) = arg.to_str() else { return arg };
        let Some(flag) = text.strip_prefix('-').filter(|flag| !flag.starts_with('-')) else { return arg };
        let name = flag.split_once('=').map_or(flag, |(name, _)| name);
        if name.chars().nth(1).is_some() && long_flags.contains(name) {
            return format!("-{text}").into();
        }
        arg
    };
    args.into_iter()
        .map(|arg| {
            rest_is_verbatim |= arg == "--";
            if rest_is_verbatim { arg } else { doubled(arg) }
        })
        .collect()
}

/// All long flags of a command and its subcommands, with their aliases.
pub fn long_flags(command: &clap::Command) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = ["help", "version"].map(str::to_owned).into();
    for arg in command.get_arguments() {
        names.extend(arg.get_long().map(str::to_owned));
        names.extend(arg.get_all_aliases().into_iter().flatten().map(str::to_owned));
    }
    for subcommand in command.get_subcommands() {
        names.extend(long_flags(subcommand));
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known() -> BTreeSet<String> {
        ["port", "kubeConfig", "v", "unsafe"].map(str::to_owned).into()
    }

    fn normalised(args: &[&str]) -> Vec<String> {
        let args = args.iter().map(OsString::from);
        normalise(args, &known()).into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn single_dashes_before_known_names_are_doubled() {
        let args = ["tas", "serve", "-port", "9001", "-kubeConfig=/k", "-unsafe=true", "--port", "1"];
        let expected = ["tas", "serve", "--port", "9001", "--kubeConfig=/k", "--unsafe=true", "--port", "1"];
        assert_eq!(normalised(&args), expected);
    }

    #[test]
    fn single_letters_unknown_names_and_verbatim_arguments_stay() {
        let args = ["-v=2", "-v", "2", "-vv", "-other", "-", "--", "-port"];
        assert_eq!(normalised(&args), args);
    }

    #[test]
    fn aliases_and_subcommands_are_known() {
        let serve =
            clap::Command::new("serve").arg(clap::Arg::new("k").long("kubeconfig").alias("kubeConfig"));
        let command =
            clap::Command::new("tas").arg(clap::Arg::new("v").short('v').long("v")).subcommand(serve);
        let expected = ["help", "kubeConfig", "kubeconfig", "v", "version"].map(str::to_owned);
        assert_eq!(long_flags(&command), expected.into());
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing_more(args in proptest::collection::vec("-{0,3}[a-z=]{0,7}|-port|--", 0..8)) {
            let once = normalise(args.iter().map(OsString::from), &known());
            prop_assert_eq!(normalise(once.clone(), &known()), once);
        }
    }
}
