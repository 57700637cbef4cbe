//! A client for tests: the NBD crate's client machine over any tokio stream.

use std::path::Path;

use headtime_nbd::client::{
    CloseReason, Completion, Config, Connection, Event, Outcome, RequestError, RequestId,
};
use headtime_nbd::{ClientLimits, Command, ListedExport};
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
        let mut client = Self::begin(stream, Config::open(export));
        match client.event().await {
            Event::Opened(_) => Ok(client),
            Event::Closed(reason) => Err(reason),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn list(stream: S) -> Vec<ListedExport> {
        match Self::begin(stream, Config::list()).event().await {
            Event::Listed(list) => list,
            other => panic!("{other:?}"),
        }
    }

    fn begin(stream: S, config: Config) -> Self {
        let machine = Connection::new(config, ClientLimits::default()).expect("default limits");
        Self { stream, machine }
    }

    /// Queues a request; [`Client::send`] or [`Client::event`] send it.
    pub(crate) fn submit(&mut self, command: Command) -> RequestId {
        self.machine.submit(command).expect("a good request")
    }

    /// Sends what is queued without reading anything.
    pub(crate) async fn send(&mut self) {
        while let Some(bytes) = self.machine.poll_output() {
            self.stream.write_all(&bytes).await.expect("the server reads");
        }
    }

    /// The next thing that happens.
    pub(crate) async fn event(&mut self) -> Event {
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
            Event::Completed(completion) => completion,
            other => panic!("{other:?}"),
        }
    }

    /// Does one request.
    pub(crate) async fn request(&mut self, command: Command) -> Result<Outcome, RequestError> {
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
        match self.request(Command::Read { offset, length, unfragmented: false }).await? {
            Outcome::Data(bytes) => Ok(bytes),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn write(
        &mut self,
        offset: u64,
        bytes: impl Into<bytes::Bytes>,
    ) -> Result<Outcome, RequestError> {
        self.request(Command::Write { offset, payload: bytes.into(), fua: false }).await
    }

    /// Leaves properly.
    pub(crate) async fn leave(mut self) -> CloseReason {
        self.machine.disconnect();
        match self.event().await {
            Event::Closed(reason) => {
                self.send().await;
                reason
            }
            other => panic!("{other:?}"),
        }
    }
}
