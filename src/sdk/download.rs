//! `downloadFile`: bytes of any length into a sink, with a limit, and resumed where a connection broke.
//!
//! Knows nothing of where the bytes go; the caller compares the digest.

use std::io::{Read, Write};
use std::time::Duration;

use ureq::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use ureq::http::{HeaderMap, HeaderValue, Response};
use uuid::Uuid;

use super::bound::{Bound, RunError};
use super::client::Client;
use super::error::{ApiError, ApiResult, TransportError};
use super::exchange::{Failed, Operation, outgoing, understand};
use super::http::{PROBLEM_LIMIT, Timing, single};

/// Bytes moved at once; between two of them the time limit starts anew.
const CHUNK_BYTES: usize = 64 * 1024;

/// What one download has done so far, kept across attempts.
struct Transfer<'a> {
    sink: &'a mut dyn Write,
    progress: &'a mut dyn FnMut(u64),
    limit: u64,
    written: u64,
}

impl Bound {
    /// Writes the bytes of a file of this run into `sink` and gives their number.
    ///
    /// `limit` is the most bytes that are written; `progress` is told the number written so far.
    ///
    /// # Errors
    /// [`TransportError::TooLong`] beyond `limit`; [`TransportError::Broken`] also when the sink fails, whose
    /// own error is the caller's to remember.
    pub fn download_file(
        &self,
        file_id: Uuid,
        limit: u64,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, RunError> {
        let mut transfer = Transfer { sink, progress, limit, written: 0 };
        self.request(|token| self.client().download(file_id, token, &mut transfer))
    }
}

impl Client {
    fn download(&self, file_id: Uuid, token: &str, transfer: &mut Transfer<'_>) -> ApiResult<u64> {
        let mut rounds = self.rounds();
        loop {
            match self.download_once(file_id, token, rounds.at_most(), transfer) {
                Ok(()) => return Ok(transfer.written),
                Err(failed) => rounds.again(failed)?,
            }
        }
    }

    /// One attempt, from the first byte that is still missing; a 401 is repeated once as everywhere.
    fn download_once(
        &self,
        file_id: Uuid,
        token: &str,
        at_most: Option<Duration>,
        transfer: &mut Transfer<'_>,
    ) -> Result<(), Failed> {
        let mut operation = Operation::get(format!("/files/{file_id}/content"));
        operation.timing = Timing::Transfer;
        operation.headers = request_headers(transfer.written);
        let mut response = self.open_download(&operation, token, at_most)?;
        if response.status() == 401 {
            self.http().read_whole(response, PROBLEM_LIMIT)?;
            response = self.open_download(&operation, token, at_most)?;
        }
        if !response.status().is_success() {
            let answer = self.http().read_whole(response, PROBLEM_LIMIT)?;
            return understand(answer).and(Err(TransportError::Garbage.into()));
        }
        check_start(&response, transfer)?;
        self.copy(response, transfer)
    }

    fn open_download(
        &self,
        operation: &Operation<'_>,
        token: &str,
        at_most: Option<Duration>,
    ) -> ApiResult<Response<ureq::Body>> {
        let (url, headers) = self.prepared(operation, Some(token))?;
        let response = self.http().open(&outgoing(operation, &url, &headers, at_most))?;
        self.credentials().learn(response.headers());
        Ok(response)
    }

    fn copy(&self, mut response: Response<ureq::Body>, transfer: &mut Transfer<'_>) -> Result<(), Failed> {
        let mut reader = response.body_mut().as_reader();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let got = match reader.read(&mut chunk) {
                // a shutdown can look like the end of a body without length
                Ok(0) if self.is_shut_down() => return Err(ApiError::ShutDown.into()),
                Ok(0) => return Ok(()),
                Ok(got) => got,
                Err(error) => return Err(self.http().failure(&error.into()).into()),
            };
            transfer.take(chunk.get(..got).unwrap_or_default())?;
        }
    }
}

impl Transfer<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let written = self.written + bytes.len() as u64;
        if written > self.limit {
            return Err(TransportError::TooLong.into());
        }
        if self.sink.write_all(bytes).is_err() {
            // asking the server again does not make room on the disk
            return Err(Failed { error: TransportError::Broken.into(), again: false, wait: None });
        }
        self.written = written;
        (self.progress)(written);
        Ok(())
    }
}

/// Asks for the rest when a part is there already (RFC 9110 section 14.2).
fn request_headers(written: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    if let (1.., Ok(range)) = (written, HeaderValue::try_from(format!("bytes={written}-"))) {
        headers.insert(RANGE, range);
    }
    headers
}

/// Whether the answer begins where the sink ends and fits into the limit.
fn check_start(response: &Response<ureq::Body>, transfer: &Transfer<'_>) -> Result<(), Failed> {
    let headers = response.headers();
    let begins = match response.status().as_u16() {
        200 => transfer.written == 0,
        206 => single(headers, &CONTENT_RANGE)
            .is_some_and(|range| range.starts_with(&format!("bytes {}-", transfer.written))),
        _ => false,
    };
    if !begins {
        return Err(Failed { error: TransportError::Garbage.into(), again: false, wait: None });
    }
    let length = single(headers, &CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| transfer.written.saturating_add(length) > transfer.limit) {
        return Err(TransportError::TooLong.into());
    }
    Ok(())
}
