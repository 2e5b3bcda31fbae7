//! From columns to typed values and back. Must not know a table.

use rusqlite::{Connection, Params, Row};
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

use super::StoreError;

/// The id in `column`.
pub fn uuid(row: &Row<'_>, column: &str) -> Result<Uuid, StoreError> {
    let text: String = row.get(column)?;
    Uuid::parse_str(&text).map_err(|_| StoreError::Row)
}

/// The value whose JSON is in `column`.
pub fn json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T, StoreError> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|_| StoreError::Row)
}

/// The value whose JSON is in `column`, which may be empty.
pub fn opt_json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<Option<T>, StoreError> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| StoreError::Row)
}

/// The JSON of `value`, for a column.
pub fn json_text<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|_| StoreError::Internal)
}

/// Every row that `sql` finds.
///
/// A row that cannot be read is left out with a log line, so that one bad row cannot hide the good ones.
pub fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query(params)?;
    let mut values = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row) {
            Err(StoreError::Row) => log::error!("code={}", StoreError::Row.code()),
            other => values.push(other?),
        }
    }
    Ok(values)
}

/// The first row that `sql` finds.
pub fn one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}
