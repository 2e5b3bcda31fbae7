//! The person's files: checked before anything starts, then sent part by part.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::interrupts::Interrupts;
use crate::cli::exit::Failure;
use crate::cli::person::Person;
use crate::cli::show::{self, Live, Transfer};
use crate::sdk::wire::file::{CompletedPart, InstanceLimits, UploadCreate, UploadSession};
use crate::sys::digest::hex;

/// Bytes of one read.
const CHUNK: usize = 64 * 1024;

/// Longest part that is held in memory, bytes; the local server asks for less.
const PART_MAX: u64 = 64 * 1024 * 1024;

/// A file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Where it is.
    pub path: PathBuf,
    /// Its name for others.
    pub name: String,
    /// Its length, bytes.
    pub size_bytes: u64,
}

/// Whether every file is one that can be sent.
///
/// # Errors
/// The first that is not, and why.
pub fn check(files: &[PathBuf]) -> Result<Vec<Attachment>, Failure> {
    files.iter().map(|path| attachment(path)).collect()
}

fn attachment(path: &Path) -> Result<Attachment, Failure> {
    let refuse = |why: &str| Failure::usage(format!("{}: {why}", shown(path)));
    let found = std::fs::metadata(path).map_err(|_| refuse("there is no such file to attach"))?;
    if !found.is_file() {
        return Err(refuse("only files can be attached; pack a directory into an archive first"));
    }
    if found.len() == 0 {
        return Err(refuse("the file is empty and cannot be sent"));
    }
    File::open(path).map_err(|_| refuse("the file cannot be read"))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if name.chars().any(char::is_control) {
        return Err(refuse("its name holds a line break or another control character; rename it"));
    }
    Ok(Attachment { path: path.to_owned(), name, size_bytes: found.len() })
}

/// Whether the server takes that many files of these lengths and names; asked before anything is read or sent.
///
/// # Errors
/// The first limit that does not hold, and what to do.
pub fn within(files: &[Attachment], limits: &InstanceLimits) -> Result<(), Failure> {
    let most = limits.message_max_attachments;
    if files.len() as u64 > most {
        let cure = "pack them into an archive, or send several messages";
        return Err(Failure::usage(format!("a message carries at most {most} files; {cure}")));
    }
    for file in files {
        let refuse = |why: String| Err(Failure::usage(format!("{}: {why}", shown(&file.path))));
        if file.size_bytes > limits.file_max_upload_bytes {
            let most = show::size(limits.file_max_upload_bytes);
            return refuse(format!("the file is larger than {most}, the most that is taken"));
        }
        if file.name.len() as u64 > limits.file_name_max_bytes {
            return refuse(format!(
                "its name is longer than {} bytes; rename it",
                limits.file_name_max_bytes
            ));
        }
    }
    Ok(())
}

/// A path for a message: nothing in it steers the terminal.
fn shown(path: &Path) -> String {
    show::one_line(&path.to_string_lossy())
}

/// Sends one file for a message in `channel_id`.
///
/// # Errors
/// Why it was not sent, or that Ctrl-C was pressed.
pub fn send(
    person: &Person,
    channel_id: Uuid,
    attachment: &Attachment,
    interrupts: &Interrupts,
    live: &Live,
) -> Result<Uuid, Failure> {
    let unreadable = |_| Failure::new(format!("{}: the file cannot be read", shown(&attachment.path)));
    let mut file = File::open(&attachment.path).map_err(unreadable)?;
    let (size_bytes, sha256) = measure(&mut file, interrupts, unreadable)?;
    let announced = UploadCreate { name: attachment.name.clone(), size_bytes, sha256 };
    let session = person.create_upload(channel_id, &announced).map_err(|fault| named(attachment, fault))?;
    let transfer = live.transfer("sending", &attachment.name, size_bytes);
    let file = File::open(&attachment.path).map_err(unreadable)?;
    let parts = send_parts(person, &session, file, interrupts, &transfer)?;
    person.complete_upload(session.file_id, parts).map_err(|fault| named(attachment, fault))?;
    Ok(session.file_id)
}

fn named(attachment: &Attachment, fault: crate::cli::person::PersonError) -> Failure {
    Failure::new(format!("{}: {fault}", shown(&attachment.path)))
}

fn measure(
    file: &mut File,
    interrupts: &Interrupts,
    unreadable: impl Fn(std::io::Error) -> Failure,
) -> Result<(u64, String), Failure> {
    let (mut hash, mut size, mut buffer) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        interrupts.check()?;
        match file.read(&mut buffer).map_err(&unreadable)? {
            0 => return Ok((size, hex(&hash.finalize()))),
            count => {
                hash.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
}

fn send_parts(
    person: &Person,
    session: &UploadSession,
    mut file: File,
    interrupts: &Interrupts,
    transfer: &Transfer,
) -> Result<Vec<CompletedPart>, Failure> {
    let length = session.part_size_bytes.min(PART_MAX);
    let mut parts = Vec::new();
    for part in &session.parts {
        interrupts.check()?;
        let mut bytes = Vec::new();
        let read = (&mut file).take(length).read_to_end(&mut bytes);
        read.map_err(|fault| Failure::new(format!("a file changed while it was sent ({})", fault.kind())))?;
        let sent = person.upload_part(session.file_id, part, &bytes)?;
        parts.push(CompletedPart { part_number: part.part_number, etag: sent.etag });
        transfer.add(bytes.len() as u64);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    #[test]
    fn only_files_with_something_in_them_can_be_attached() {
        let top = TempDir::new().unwrap();
        std::fs::write(top.join("good.zip"), "x").unwrap();
        std::fs::write(top.join("empty"), "").unwrap();
        std::fs::write(top.join("line\nbreak"), "x").unwrap();
        std::fs::create_dir(top.join("dir")).unwrap();
        let rows = [
            ("good.zip", None),
            ("missing", Some("no such file")),
            ("dir", Some("archive")),
            ("empty", Some("empty")),
            ("line\nbreak", Some("rename it")),
        ];
        for (name, fault) in rows {
            let found = check(&[top.join(name)]);
            match fault {
                None => assert_eq!(found.unwrap()[0].name, name),
                Some(said) => {
                    let message = found.unwrap_err().message;
                    let name = show::one_line(name);
                    assert!(message.contains(said) && message.contains(&name), "{message}");
                }
            }
        }
    }
}
