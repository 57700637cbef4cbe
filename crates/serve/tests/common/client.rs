//! An NBD client for tests: the client state machine of the NBD crate over any tokio stream.

use std::path::Path;

use headtime_nbd::client::{
    ClientEvent, CloseReason, Completion, Connection, Cookie, NbdClientConfig, Reply, RequestError,
};
use headtime_nbd::{ClientLimits, ListedExport, NbdCommand};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;

pub(crate) struct Client<S> {
    pub(crate) stream: S,
    pub(crate) machine: Connection,
}

impl Client<UnixStream> {
    pub(crate) async fn open(socket: &Path, export: &str) -> Result<Self, CloseReason> {
        let stream = UnixStream::connect(socket).await.expect("the server listens");
        Self::over(stream, export).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Opens `export` over a connected stream.
    pub(crate) async fn over(stream: S, export: &str) -> Result<Self, CloseReason> {
        let mut client = Self::begin(stream, NbdClientConfig::open(export));
        match client.event().await {
            ClientEvent::Opened(_) => Ok(client),
            ClientEvent::Closed(reason) => Err(reason),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn list(stream: S) -> Vec<ListedExport> {
        match Self::begin(stream, NbdClientConfig::list()).event().await {
            ClientEvent::Listed(list) => list,
            other => panic!("{other:?}"),
        }
    }

    fn begin(stream: S, config: NbdClientConfig) -> Self {
        let machine = Connection::new(config, ClientLimits::default()).expect("default limits");
        Self { stream, machine }
    }

    /// Queues a request; [`Client::send`] or [`Client::event`] send it.
    pub(crate) fn submit(&mut self, command: NbdCommand) -> Cookie {
        self.machine.submit(command).expect("a good request")
    }

    /// Sends queued requests without reading.
    pub(crate) async fn send(&mut self) {
        while let Some(bytes) = self.machine.poll_output() {
            self.stream.write_all(&bytes).await.expect("the server reads");
        }
    }

    /// Waits for the next event.
    pub(crate) async fn event(&mut self) -> ClientEvent {
        loop {
            if let Some(event) = self.machine.poll_event() {
                return event;
            }
            while let Some(bytes) = self.machine.poll_output() {
                if self.stream.write_all(&bytes).await.is_err() {
                    self.machine.end_of_input();
                }
            }
            if self.machine.wants_input() {
                match self.stream.read_buf(&mut self.machine.read_buffer()).await {
                    Ok(0) | Err(_) => self.machine.end_of_input(),
                    Ok(_) => {}
                }
            }
        }
    }

    pub(crate) async fn completion(&mut self) -> Completion {
        match self.event().await {
            ClientEvent::Completed(completion) => completion,
            other => panic!("{other:?}"),
        }
    }

    /// Sends one request and waits for its reply.
    pub(crate) async fn request(&mut self, command: NbdCommand) -> Result<Reply, RequestError> {
        let id = self.submit(command);
        let completion = self.completion().await;
        assert_eq!(completion.id, id);
        completion.result
    }

    pub(crate) async fn read(
        &mut self,
        offset: u64,
        length: u32,
    ) -> Result<bytes::Bytes, RequestError> {
        match self.request(NbdCommand::Read { offset, length, unfragmented: false }).await? {
            Reply::Data(bytes) => Ok(bytes),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn write(
        &mut self,
        offset: u64,
        bytes: impl Into<bytes::Bytes>,
    ) -> Result<Reply, RequestError> {
        self.request(NbdCommand::Write { offset, payload: bytes.into(), fua: false }).await
    }

    /// Disconnects in order.
    pub(crate) async fn leave(mut self) -> CloseReason {
        self.machine.disconnect();
        match self.event().await {
            ClientEvent::Closed(reason) => {
                self.send().await;
                reason
            }
            other => panic!("{other:?}"),
        }
    }
}
