//! How ids, words and JSON stand in a column: readable text, parsed back where it is read.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::sdk::wire::Time;

/// An id as hyphenated text.
#[derive(Clone, Copy, Debug)]
pub struct Id(pub Uuid);

impl ToSql for Id {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.to_string().into())
    }
}

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Id> {
        Uuid::parse_str(value.as_str()?).map(Id).map_err(|fault| FromSqlError::Other(Box::new(fault)))
    }
}

/// A closed set of words: the wire's spelling of an enum.
#[derive(Clone, Copy, Debug)]
pub struct Word<T>(pub T);

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match serde_json::to_value(&self.0) {
            Ok(Value::String(word)) => Ok(word.into()),
            Ok(_) => Err(rusqlite::Error::ToSqlConversionFailure("not a word".into())),
            Err(fault) => Err(rusqlite::Error::ToSqlConversionFailure(Box::new(fault))),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Word<T>> {
        let word = Value::String(value.as_str()?.to_owned());
        serde_json::from_value(word).map(Word).map_err(|fault| FromSqlError::Other(Box::new(fault)))
    }
}

/// Any value as JSON text.
#[derive(Clone, Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(&self.0)
            .map(Into::into)
            .map_err(|fault| rusqlite::Error::ToSqlConversionFailure(Box::new(fault)))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Json<T>> {
        serde_json::from_str(value.as_str()?).map(Json).map_err(|fault| FromSqlError::Other(Box::new(fault)))
    }
}

/// A moment as milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct At(pub Time);

impl ToSql for At {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_millis().into())
    }
}

impl FromSql for At {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<At> {
        Ok(At(Time::from_millis(value.as_i64()?)))
    }
}

/// A length as SQLite's signed integer; a length beyond it cannot exist on a disk.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl ToSql for Size {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(i64::try_from(self.0).unwrap_or(i64::MAX).into())
    }
}

impl FromSql for Size {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Size> {
        Ok(Size(u64::try_from(value.as_i64()?).unwrap_or(0)))
    }
}
