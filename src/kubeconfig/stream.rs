//! From an address to a byte stream: TCP, perhaps a proxy, perhaps TLS.

use std::future::ready;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt as _, service_fn};

use super::proxy::{Kind, Proxy};

/// Makes streams to the address that it is called with.
pub(super) type Connector = BoxCloneSyncService<Uri, Stream, BoxError>;

type Tcp = TokioIo<TcpStream>;

/// How long a peer may be silent before the system probes a TCP connection.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

trait Io: Read + Write + Connection + Send + Unpin {}

impl<T: Read + Write + Connection + Send + Unpin> Io for T {}

/// A connected byte stream.
pub(super) struct Stream {
    io: Box<dyn Io>,
    /// An HTTP proxy is at the other end and wants to be told the whole address.
    forwarding: bool,
}

impl Stream {
    /// Whether both sides agreed on HTTP/2.
    pub(super) fn speaks_http2(&self) -> bool {
        self.io.connected().is_negotiated_h2()
    }
}

/// A connector for servers with this TLS configuration, perhaps behind a proxy.
pub(super) fn connector(
    tls: &ClientConfig,
    server_name: Option<ServerName<'static>>,
    proxy: Option<&Proxy>,
    tls_server: bool,
) -> Connector {
    let Some(proxy) = proxy else {
        return boxed(over(tcp(), tls, server_name));
    };
    if proxy.kind == Kind::Socks5 {
        return boxed(over(socks(proxy), tls, server_name));
    }
    let address = proxy.address.clone();
    // A proxy that speaks TLS is trusted as the server is.
    let to_proxy = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http().enable_http1();
    let to_proxy = to_proxy.wrap_connector(tcp());
    if !tls_server {
        // Plain requests are sent to the proxy, whatever address they carry.
        let forward = to_proxy.map_request(move |_: Uri| address.clone());
        return BoxCloneSyncService::new(forward.map_response(|io| Stream { io: Box::new(io), forwarding: true }));
    }
    let tunnel = Tunnel::new(address, to_proxy);
    let tunnel = match proxy.authorization() {
        Some(login) => tunnel.with_auth(login),
        None => tunnel,
    };
    boxed(over(tunnel, tls, server_name))
}

/// SOCKS over a stream that is connected first, because hyper-util's own errors do not say why a proxy is out of reach.
fn socks(
    proxy: &Proxy,
) -> impl Service<Uri, Response = Tcp, Error = BoxError, Future: Send> + Clone + Send + Sync + use<> {
    let (address, login) = (proxy.address.clone(), proxy.login.clone());
    service_fn(move |server: Uri| {
        let (address, login) = (address.clone(), login.clone());
        async move {
            let mut stream = Some(tcp().oneshot(address.clone()).await?);
            let connected = move |_: Uri| ready(stream.take().ok_or_else(|| io::Error::other("one stream is one use")));
            let socks = SocksV5::new(address, service_fn(connected));
            let socks = match login {
                Some((user, password)) => socks.with_auth(user, password.expose().to_owned()),
                None => socks,
            };
            Ok::<_, BoxError>(socks.oneshot(with_port(&server)?).await?)
        }
    })
}

/// An address that says its port: proxies are told one, and hyper-util takes 443 for all that do not.
fn with_port(server: &Uri) -> Result<Uri, http::uri::InvalidUri> {
    let default = if server.scheme_str() == Some("http") { 80 } else { 443 };
    let port = server.port_u16().unwrap_or(default);
    let scheme = server.scheme_str().unwrap_or("https");
    format!("{scheme}://{}:{port}", server.host().unwrap_or_default()).parse()
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    tcp
}

/// TLS over what `inner` connects, where the address asks for it.
fn over<C>(inner: C, tls: &ClientConfig, server_name: Option<ServerName<'static>>) -> HttpsConnector<C> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
    let builder = match server_name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
        None => builder,
    };
    builder.enable_all_versions().wrap_connector(inner)
}

fn boxed<C>(connector: C) -> Connector
where
    C: Service<Uri, Error = BoxError> + Clone + Send + Sync + 'static,
    C::Response: Io + 'static,
    C::Future: Send + 'static,
{
    BoxCloneSyncService::new(connector.map_response(|io| Stream { io: Box::new(io), forwarding: false }))
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.forwarding)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }
}
