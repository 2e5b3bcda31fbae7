//! The archive of the demo and the numbers in it (attachments-in.md, the tracer).

use std::io::{Cursor, Write};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Name of the archive.
pub const ARCHIVE: &str = "orders.zip";

/// Name of the table in it.
const TABLE: &str = "orders.csv";

/// Three orders; nobody's.
const ORDERS: &str = "order,customer,quantity,total\n\
                      1001,Alex,2,15.00\n\
                      1002,Sam,4,40.00\n\
                      1003,Robin,1,5.00\n";

/// Rows of the table.
pub const ROWS: u64 = 3;
/// Sum of the quantities.
pub const QUANTITY: u64 = 7;
/// Sum of the totals.
pub const TOTAL: u64 = 60;

/// The bytes of the archive.
///
/// # Errors
/// The packer's answer.
pub fn archive() -> std::io::Result<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(TABLE, SimpleFileOptions::default())?;
    writer.write_all(ORDERS.as_bytes())?;
    Ok(writer.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_table() {
        let rows: Vec<Vec<&str>> = ORDERS.lines().skip(1).map(|line| line.split(',').collect()).collect();
        let sum = |column: usize| rows.iter().map(|row| row[column].parse::<f64>().unwrap()).sum::<f64>();
        assert_eq!((rows.len() as u64, sum(2), sum(3)), (ROWS, QUANTITY as f64, TOTAL as f64));
    }

    #[test]
    fn the_archive_holds_the_table() {
        let mut archive = zip::ZipArchive::new(Cursor::new(archive().unwrap())).unwrap();
        assert_eq!(archive.len(), 1);
        assert_eq!(std::io::read_to_string(archive.by_name(TABLE).unwrap()).unwrap(), ORDERS);
    }
}
