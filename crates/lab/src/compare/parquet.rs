//! `results.parquet`: the lines and columns of `results.csv`, typed, for programs that read
//! columns.

use std::sync::Arc;

use anyhow::Context as _;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::results::Comparison;
use super::table::{COLUMNS, CellValue, Column, ColumnKind};

/// The file's bytes: one row group, uncompressed, because it is small and every reader reads that.
///
/// # Errors
/// None that is known of: every value fits its column.
pub fn parquet(comparison: &Comparison) -> anyhow::Result<Vec<u8>> {
    let fields = COLUMNS
        .iter()
        .map(|column| Ok(Arc::new(field(column)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let schema = Type::group_type_builder("comparison").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by(CREATED_BY.to_string())
        .build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))
        .context("the schema")?;
    let mut group = writer.next_row_group()?;
    let lines = comparison.lines();
    for column in COLUMNS {
        let values: Vec<CellValue> = lines.iter().map(|line| (column.of)(line)).collect();
        write(&mut group, &values).with_context(|| format!("column {}", column.name))?;
    }
    group.close()?;
    writer.close()?;
    Ok(bytes)
}

fn field(column: &Column) -> anyhow::Result<Type> {
    let physical = match column.kind {
        ColumnKind::Text => Physical::BYTE_ARRAY,
        ColumnKind::Whole => Physical::INT64,
        ColumnKind::Number => Physical::DOUBLE,
        ColumnKind::YesNo => Physical::BOOLEAN,
    };
    let logical = (column.kind == ColumnKind::Text).then_some(LogicalType::String);
    let repetition =
        if column.kind == ColumnKind::YesNo { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    Ok(Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()?)
}

fn write(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[CellValue],
) -> anyhow::Result<()> {
    let mut column = group.next_column()?.context("the schema has a column less than the table")?;
    // One where there is a value: columns are optional and not nested.
    let levels: Vec<i16> = values
        .iter()
        .map(|value| {
            i16::from(!matches!(
                value,
                CellValue::Text(None) | CellValue::Whole(None) | CellValue::Number(None)
            ))
        })
        .collect();
    match values.first() {
        None => {}
        Some(CellValue::Text(_)) => {
            let texts = values.iter().filter_map(|value| {
                if let CellValue::Text(Some(text)) = value {
                    Some(ByteArray::from(text.as_str()))
                } else {
                    None
                }
            });
            column.typed::<ByteArrayType>().write_batch(
                &texts.collect::<Vec<_>>(),
                Some(&levels),
                None,
            )?;
        }
        Some(CellValue::Whole(_)) => {
            let numbers = values.iter().filter_map(|value| {
                if let CellValue::Whole(number) = value { *number } else { None }
            });
            column.typed::<Int64Type>().write_batch(
                &numbers.collect::<Vec<_>>(),
                Some(&levels),
                None,
            )?;
        }
        Some(CellValue::Number(_)) => {
            let numbers = values.iter().filter_map(|value| {
                if let CellValue::Number(number) = value { *number } else { None }
            });
            column.typed::<DoubleType>().write_batch(
                &numbers.collect::<Vec<_>>(),
                Some(&levels),
                None,
            )?;
        }
        Some(CellValue::YesNo(_)) => {
            let answers = values.iter().filter_map(|value| {
                if let CellValue::YesNo(yes) = value { Some(*yes) } else { None }
            });
            column.typed::<BoolType>().write_batch(&answers.collect::<Vec<_>>(), None, None)?;
        }
    }
    column.close()?;
    Ok(())
}

/// The same whatever the library's version, so that the same plan gives the same bytes.
const CREATED_BY: &str = concat!("headtime version ", env!("CARGO_PKG_VERSION"));
