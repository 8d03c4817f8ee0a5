//! kubectl's connection flags for clap.

use clap::builder::{BoolishValueParser, ValueParser};
use clap::{ArgAction, Args, ValueHint};

use crate::kubeconfig::{ConnectionFlags, Secret};

/// A flag that may carry `=true` or `=false`, as kubectl's do.
fn flag() -> BoolishValueParser {
    BoolishValueParser::new()
}

/// A value that is kept out of debug output.
fn secret() -> ValueParser {
    ValueParser::new(|text: &str| Ok::<_, std::convert::Infallible>(Secret::from(text)))
}

/// Flags that every subcommand takes, with kubectl's names and meaning.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Kubeconfig file to use
    #[arg(long, global = true, overrides_with = "kubeconfig", hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<String>,

    /// Context of the kubeconfig to use
    #[arg(long, global = true, overrides_with = "context", hide_short_help = true, value_name = "NAME")]
    context: Option<String>,

    /// Cluster of the kubeconfig to use
    #[arg(long, global = true, overrides_with = "cluster", hide_short_help = true, value_name = "NAME")]
    cluster: Option<String>,

    /// User of the kubeconfig to use
    #[arg(long, global = true, overrides_with = "user", hide_short_help = true, value_name = "NAME")]
    user: Option<String>,

    /// Namespace to work in
    #[arg(short, long, global = true, overrides_with = "namespace", value_name = "NAME")]
    namespace: Option<String>,

    /// Address of the API server; without a scheme it means http
    #[arg(short, long, global = true, overrides_with = "server", hide_short_help = true, value_name = "URL")]
    server: Option<String>,

    /// Bearer token to authenticate with
    #[arg(long, global = true, overrides_with = "token", hide_short_help = true, value_name = "TOKEN", value_parser = secret())]
    token: Option<Secret>,

    /// User to impersonate
    #[arg(long = "as", global = true, overrides_with = "impersonate", hide_short_help = true, value_name = "USER")]
    impersonate: Option<String>,

    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, hide_short_help = true, value_name = "GROUP")]
    impersonate_groups: Vec<String>,

    /// UID to impersonate
    #[arg(
        long = "as-uid",
        global = true,
        overrides_with = "impersonate_uid",
        hide_short_help = true,
        value_name = "UID"
    )]
    impersonate_uid: Option<String>,

    /// Extra fact about the user to impersonate; may be repeated, also with the same key
    #[arg(long = "as-user-extra", global = true, hide_short_help = true, value_name = "KEY=VALUE")]
    impersonate_user_extra: Vec<String>,

    /// File with the certificate authorities that the server may be certified by
    #[arg(long, global = true, overrides_with = "certificate_authority", hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    certificate_authority: Option<String>,

    /// File with the client certificate
    #[arg(long, global = true, overrides_with = "client_certificate", hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    client_certificate: Option<String>,

    /// File with the key of the client certificate
    #[arg(long, global = true, overrides_with = "client_key", hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    client_key: Option<String>,

    /// Accept any certificate of the server, which makes the connection insecure
    #[arg(
        long, global = true, overrides_with = "insecure_skip_tls_verify", hide_short_help = true, value_name = "BOOL",
        action = ArgAction::Set, value_parser = flag(),
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
        hide_default_value = true, hide_possible_values = true
    )]
    insecure_skip_tls_verify: bool,

    /// Name to expect in the server's certificate instead of its host
    #[arg(long, global = true, overrides_with = "tls_server_name", hide_short_help = true, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// Longest time for a single call, such as 5s or 2m; 0 for no limit [default: 30s]
    #[arg(long, global = true, overrides_with = "request_timeout", hide_short_help = true, value_name = "TIME")]
    request_timeout: Option<String>,

    /// Ask the server for answers without compression
    #[arg(
        long, global = true, overrides_with = "disable_compression", hide_short_help = true, value_name = "BOOL",
        action = ArgAction::Set, value_parser = flag(),
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
        hide_default_value = true, hide_possible_values = true
    )]
    disable_compression: bool,

    /// Accepted because kubectl has it; nothing is cached
    #[arg(long, global = true, overrides_with = "cache_dir", hide_short_help = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    cache_dir: Option<String>,
}

impl From<ConnectionArgs> for ConnectionFlags {
    fn from(args: ConnectionArgs) -> Self {
        Self {
            kubeconfig: args.kubeconfig,
            context: args.context,
            cluster: args.cluster,
            user: args.user,
            namespace: args.namespace,
            server: args.server,
            token: args.token,
            impersonate: args.impersonate,
            impersonate_groups: args.impersonate_groups,
            impersonate_uid: args.impersonate_uid,
            impersonate_user_extra: args.impersonate_user_extra,
            certificate_authority: args.certificate_authority,
            client_certificate: args.client_certificate,
            client_key: args.client_key,
            insecure_skip_tls_verify: args.insecure_skip_tls_verify,
            tls_server_name: args.tls_server_name,
            request_timeout: args.request_timeout,
            disable_compression: args.disable_compression,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        connection: ConnectionArgs,
        #[command(subcommand)]
        command: Sub,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Sub {
        Go,
    }

    fn parse(args: &str) -> ConnectionFlags {
        let args = std::iter::once("test").chain(args.split(' '));
        ConnectionFlags::from(Cli::try_parse_from(args).unwrap().connection)
    }

    #[test]
    fn r39_every_connection_flag_is_taken_after_the_subcommand() {
        let flags = parse(
            "go --kubeconfig=k --context=x --cluster=c --user=u -n n -s s --token t --as a --as-group g,h --as-group i \
             --as-uid 7 --as-user-extra k=v --as-user-extra k=w --certificate-authority ca --client-certificate cc \
             --client-key ck --insecure-skip-tls-verify --tls-server-name tn --request-timeout 5s --disable-compression \
             --cache-dir d",
        );
        let some = |text: &str| Some(text.to_owned());
        assert_eq!((flags.kubeconfig, flags.context, flags.cluster), (some("k"), some("x"), some("c")));
        assert_eq!((flags.user, flags.namespace, flags.server), (some("u"), some("n"), some("s")));
        assert_eq!((flags.token, flags.impersonate, flags.impersonate_uid), (Some("t".into()), some("a"), some("7")));
        assert_eq!(flags.impersonate_groups, ["g,h", "i"]);
        assert_eq!(flags.impersonate_user_extra, ["k=v", "k=w"]);
        assert_eq!((flags.certificate_authority, flags.client_certificate), (some("ca"), some("cc")));
        assert_eq!((flags.client_key, flags.tls_server_name), (some("ck"), some("tn")));
        assert_eq!(flags.request_timeout, some("5s"));
        assert!(flags.insecure_skip_tls_verify && flags.disable_compression);
    }

    #[test]
    fn r39_flags_are_read_as_kubectl_reads_them() {
        assert_eq!(parse("--context a go").context.as_deref(), Some("a"), "before the subcommand too");
        assert_eq!(parse("go --context a --context b").context.as_deref(), Some("b"), "the last one holds");
        assert_eq!(parse("go --context=").context.as_deref(), Some(""));
        assert_eq!(parse("go -nx").namespace.as_deref(), Some("x"));
        assert_eq!(parse("go -n=x").namespace.as_deref(), Some("x"));
        for (value, expected) in
            [("=true", true), ("=T", true), ("=1", true), ("=false", false), ("=0", false), ("", true)]
        {
            let flags = parse(&format!("go --insecure-skip-tls-verify{value}"));
            assert_eq!(flags.insecure_skip_tls_verify, expected, "{value}");
        }
        assert!(!parse("go --disable-compression --disable-compression=false").disable_compression);
    }

    #[test]
    fn r43_the_token_is_not_part_of_debug_output() {
        let args = Cli::try_parse_from(["test", "go", "--token", "planted"]).unwrap();
        assert!(!format!("{args:?}").contains("planted"));
    }
}
