//! What people type, and what they are told when it cannot be.

use std::ffi::OsString;

use chassis::args::{AdminArgs, LimitArgs, ListenArgs, LogArgs, long_flags, normalise};
use chassis::logs::Color;
use chassis::tls::{Clients, Protocols, Settings};
use clap::builder::Resettable;
use clap::{CommandFactory, FromArgMatches, Parser};

/// A server like ours.
#[derive(Debug, Parser)]
#[command(name = "tas")]
struct Args {
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    log: LogArgs,
}

fn parsed(line: &str) -> Result<Args, String> {
    let argv = std::iter::once("tas").chain(line.split_whitespace()).map(OsString::from);
    // What this machine's environment says must not matter here.
    let command = Args::command().mut_args(|arg| arg.env(Resettable::<clap::builder::OsStr>::Reset));
    let argv = normalise(argv, &long_flags(&command));
    let matches = command.try_get_matches_from(argv).map_err(|error| error.to_string())?;
    Args::from_arg_matches(&matches).map_err(|error| error.to_string())
}

fn resolved(line: &str) -> String {
    match parsed(line).expect(line).listen.resolve(Protocols::Http1) {
        Ok(listening) => format!("{listening:?}"),
        Err(refusals) => refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

#[test]
fn the_groups_fit_together() {
    Args::command().debug_assert();
}

#[test]
fn help_reads_well() {
    let help =
        Args::command().term_width(0).mut_args(|arg| arg.hide_env_values(true)).render_help().to_string();
    insta::assert_snapshot!(help, @r#"
    A server like ours

    Usage: tas [OPTIONS]

    Options:
      -h, --help  Print help (see more with '--help')

    Listening:
          --bind-address <IP>       Address to listen on; `::` is all addresses [env: TAS_BIND_ADDRESS] [default: ::]
          --port <PORT>             Port to listen on; 0 picks a free one [env: TAS_LISTEN_PORT] [default: 9001]
          --cert <FILE>             PEM file with our certificate, then those of intermediate CAs; read again when it changes [env: TAS_CERT]
          --key <FILE>              PEM file with the private key of our certificate [env: TAS_KEY]
          --cacert <FILE>           PEM file with the CAs whose clients may call; without it anybody may [env: TAS_CACERT]
          --client-name <NAME>      Only clients whose certificate bears this common name or DNS name; may be given several times [env: TAS_CLIENT_NAMES]
          --insecure-http[=<BOOL>]  Speak plain HTTP to the network: anybody who can reach the port can ask, and read the answers [env: TAS_INSECURE_HTTP] [default: false]

    Admin port:
          --admin-bind-address <IP>  Address of the admin port (/livez, /readyz, /metrics); `::` is all addresses [env: TAS_ADMIN_BIND_ADDRESS] [default: ::]
          --admin-port <PORT>        Admin port; 0 picks a free one [env: TAS_ADMIN_LISTEN_PORT] [default: 9402]

    Limits:
          --max-connections <N>        Open connections per port; more are closed at once [env: TAS_MAX_CONNECTIONS] [default: 512]
          --max-body-bytes <BYTES>     Largest request body; more is answered with 413 [env: TAS_MAX_BODY_BYTES] [default: 64Mi]
          --body-timeout <DURATION>    Time for a request body to arrive; later is answered with 408 [env: TAS_BODY_TIMEOUT] [default: 10s]
          --header-timeout <DURATION>  Time for request headers to arrive [env: TAS_HEADER_TIMEOUT] [default: 5s]
          --idle-timeout <DURATION>    Time that a connection may stay open between requests; keep it above the callers' own (90s in Go) [env: TAS_IDLE_TIMEOUT] [default: 2m]
          --shutdown-delay <DURATION>  Time to stay reachable but not ready after SIGTERM, so that callers go elsewhere [env: TAS_SHUTDOWN_DELAY] [default: 3s]
          --drain-timeout <DURATION>   Time for requests in flight to finish at the end [env: TAS_DRAIN_TIMEOUT] [default: 10s]

    Logs:
          --log-format <FORMAT>  Text for people or one JSON object per line [env: TAS_LOG_FORMAT] [default: text] [possible values: text, json]
          --log-level <LEVEL>    What to log: a level (error, warn, info, debug, trace), and others for single modules: info,hyper=debug [env: TAS_LOG_LEVEL] [default: info]
      -v, --v <N>                Verbosity as Kubernetes counts it: 0 to 2 info, 3 and 4 debug, 5 and more trace; goes before --log-level
    "#);
}

#[test]
fn intels_arguments_are_understood_as_they_are() {
    let line = "-port 9001 --cert=/tas/cert/tls.crt -key=/tas/cert/tls.key --cacert /ca.crt -v=2";
    let args = parsed(line).expect("understood");
    let listening = args.listen.resolve(Protocols::Http1First).expect("in order");
    assert_eq!(listening.address, "[::]:9001".parse().expect("an address"));
    let settings = Settings {
        certificate: "/tas/cert/tls.crt".into(),
        key: "/tas/cert/tls.key".into(),
        clients: Clients::SignedBy { ca: "/ca.crt".into(), names: Vec::new() },
        protocols: Protocols::Http1First,
    };
    assert_eq!(listening.transport, chassis::args::Transport::Tls(settings));
    assert_eq!(args.log.resolve(Color::Off).filter, "info".parse().expect("a filter"));
    let long = parsed("--v=4 --log-level warn").expect("understood");
    assert_eq!(long.log.resolve(Color::Off).filter, "debug".parse().expect("a filter"));
}

#[test]
fn client_names_may_be_given_several_times() {
    let args = parsed("--cert c --key k --cacert a --client-name one --client-name two").expect("understood");
    assert_eq!(args.listen.client_names, ["one", "two"]);
}

#[test]
fn plain_http_is_for_loopback_or_on_demand() {
    let cases = [
        "--bind-address 127.0.0.1",
        "--bind-address ::1 --port 0",
        "--insecure-http",
        "--insecure-http=true --bind-address 10.0.0.1",
        "--unsafe=false --bind-address 127.0.0.1",
    ];
    for line in cases {
        assert!(resolved(line).ends_with("transport: Plain }"), "{line}: {}", resolved(line));
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_way_out_and_all_at_once() {
    let cases = [
        "",
        "--unsafe",
        "-unsafe=true",
        "--cert c",
        "--key k",
        "--cacert a --bind-address 127.0.0.1",
        "--cert c --key k --client-name x",
        "--cert c --key k --cacert a --client-name=",
        "--cert c --insecure-http --client-name x",
        "--insecure-http=false",
    ];
    let told: Vec<_> = cases.iter().map(|line| format!("$ tas {line}\n{}", resolved(line))).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    $ tas 
    no certificate given and [::]:9001 can be reached from outside; give --cert and --key, or listen on 127.0.0.1 (--bind-address), or, on a network that you trust, say --insecure-http
    $ tas --unsafe
    --unsafe is not followed: it would speak plain HTTP to the whole network. Leave it out and give --cert and --key; or, on a network that you trust, say --insecure-http
    $ tas -unsafe=true
    --unsafe is not followed: it would speak plain HTTP to the whole network. Leave it out and give --cert and --key; or, on a network that you trust, say --insecure-http
    $ tas --cert c
    --cert needs --key, the file with its private key
    $ tas --key k
    --key needs --cert, the file with its certificate
    $ tas --cacert a --bind-address 127.0.0.1
    --cacert asks clients for certificates, which needs TLS; give --cert and --key as well
    $ tas --cert c --key k --client-name x
    --client-name needs --cacert: a name means something only in a certificate that a known CA has signed
    $ tas --cert c --key k --cacert a --client-name=
    --client-name is empty; leave it out to allow every client of the CA
    $ tas --cert c --insecure-http --client-name x
    --insecure-http and --cert contradict each other; leave one out
    --client-name needs --cacert: a name means something only in a certificate that a known CA has signed
    --cert needs --key, the file with its private key
    $ tas --insecure-http=false
    no certificate given and [::]:9001 can be reached from outside; give --cert and --key, or listen on 127.0.0.1 (--bind-address), or, on a network that you trust, say --insecure-http
    "#);
}

#[test]
fn values_that_cannot_be_are_quoted_with_the_way_out() {
    let cases = [
        "--port 70000",
        "--body-timeout 5",
        "--idle-timeout 0s",
        "--max-body-bytes 64MB",
        "--max-connections 0",
        "--log-level inof",
        "--log-format xml",
    ];
    let told: Vec<_> = cases
        .iter()
        .map(|line| {
            let error = parsed(line).expect_err(line);
            format!(
                "$ tas {line}\n{}",
                error.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
            )
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    $ tas --port 70000
    error: invalid value '70000' for '--port <PORT>': 70000 is not in 0..=65535
    $ tas --body-timeout 5
    error: invalid value '5' for '--body-timeout <DURATION>': "5" is not a duration; write it like 500ms, 2s or 1m30s
    $ tas --idle-timeout 0s
    error: invalid value '0s' for '--idle-timeout <DURATION>': "0s" leaves no time at all; write something above 0, like 5s
    $ tas --max-body-bytes 64MB
    error: invalid value '64MB' for '--max-body-bytes <BYTES>': "64MB" is not a size; write a number of bytes above 0, like 65536, 64Ki or 64Mi
    $ tas --max-connections 0
    error: invalid value '0' for '--max-connections <N>': 0 is not in 1..=65535
    $ tas --log-level inof
    error: invalid value 'inof' for '--log-level <LEVEL>': "inof" is not a log level; write error, warn, info, debug or trace, and for single modules info,hyper=debug
    $ tas --log-format xml
    error: invalid value 'xml' for '--log-format <FORMAT>'
      [possible values: text, json]
    "#);
}

#[test]
fn limits_reach_the_server() {
    let args = parsed("--max-connections 7 --max-body-bytes 1Mi --body-timeout 1m30s --drain-timeout 500ms");
    let limits = args.expect("understood").limits;
    assert_eq!((limits.limits().connections, limits.limits().drain_deadline.as_millis()), (7, 500));
    assert_eq!((limits.body().bytes, limits.body().deadline.as_secs()), (1 << 20, 90));
}

#[test]
fn the_defaults_of_the_arguments_are_those_of_the_limits() {
    let limits = parsed("").expect("understood").limits;
    assert_eq!(limits.limits(), chassis::Limits::default());
    assert_eq!(limits.body(), chassis::BodyLimits::default());
}

async fn opened(line: &str) -> Result<chassis::args::Opened, chassis::args::OpenError> {
    let listening = parsed(line).expect(line).listen.resolve(Protocols::Http1).expect(line);
    listening.open(chassis::tls::unix_now()).await
}

#[tokio::test]
async fn what_cannot_be_opened_ends_the_process_with_its_own_code() {
    let first = opened("--bind-address 127.0.0.1 --port 0").await.expect("a free port");
    assert!(first.tls.is_none());
    let taken = first.listener.local_addr().expect("an address").port();
    let address = opened(&format!("--bind-address 127.0.0.1 --port {taken}")).await.expect_err("taken");
    assert_eq!(address.exit(), chassis::Exit::Address);
    let missing = opened("--bind-address 127.0.0.1 --port 0 --cert /missing --key /missing")
        .await
        .expect_err("missing");
    assert_eq!(missing.to_string(), "cannot read /missing: No such file or directory (os error 2)");
    assert_eq!(missing.exit(), chassis::Exit::Configuration);
}
