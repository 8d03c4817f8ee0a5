//! kubectl's connection flags for clap.

use clap::builder::{BoolishValueParser, ValueParser};
use clap::{ArgAction, Args};

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
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    kubeconfig: Option<String>,

    /// Context of the kubeconfig to use
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    context: Option<String>,

    /// Cluster of the kubeconfig to use
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    cluster: Option<String>,

    /// User of the kubeconfig to use
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    user: Option<String>,

    /// Namespace to work in
    #[arg(short, long, global = true, value_name = "NAME")]
    namespace: Option<String>,

    /// Address of the API server; without a scheme it means http
    #[arg(short, long, global = true, hide_short_help = true, value_name = "URL")]
    server: Option<String>,

    /// Bearer token to authenticate with
    #[arg(long, global = true, hide_short_help = true, value_name = "TOKEN", value_parser = secret())]
    token: Option<Secret>,

    /// User to impersonate
    #[arg(long = "as", global = true, hide_short_help = true, value_name = "USER")]
    impersonate: Option<String>,

    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, hide_short_help = true, value_name = "GROUP")]
    impersonate_groups: Vec<String>,

    /// UID to impersonate
    #[arg(long = "as-uid", global = true, hide_short_help = true, value_name = "UID")]
    impersonate_uid: Option<String>,

    /// Extra fact about the user to impersonate; may be repeated, also with the same key
    #[arg(long = "as-user-extra", global = true, hide_short_help = true, value_name = "KEY=VALUE")]
    impersonate_user_extra: Vec<String>,

    /// File with the certificate authorities that the server may be certified by
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    certificate_authority: Option<String>,

    /// File with the client certificate
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    client_certificate: Option<String>,

    /// File with the key of the client certificate
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    client_key: Option<String>,

    /// Accept any certificate of the server, which makes the connection insecure
    #[arg(
        long, global = true, hide_short_help = true, value_name = "BOOL",
        action = ArgAction::Set, value_parser = flag(),
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
        hide_default_value = true, hide_possible_values = true
    )]
    insecure_skip_tls_verify: bool,

    /// Name to expect in the server's certificate instead of its host
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// Longest time for a single call, such as 5s or 2m; 0 for no limit [default: 30s]
    #[arg(long, global = true, hide_short_help = true, value_name = "TIME")]
    request_timeout: Option<String>,

    /// Ask the server for answers without compression
    #[arg(
        long, global = true, hide_short_help = true, value_name = "BOOL",
        action = ArgAction::Set, value_parser = flag(),
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
        hide_default_value = true, hide_possible_values = true
    )]
    disable_compression: bool,

    /// Accepted because kubectl has it; nothing is cached
    #[arg(long, global = true, hide_short_help = true, value_name = "DIR")]
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
