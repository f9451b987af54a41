//! Writes generated samples for the scripts of `training/`, without headers, little-endian:
//! `training_data digits-boxes|shapes-3d training|test COUNT FOLDER`.
//!
//! For `digits-boxes` pictures (u8) and objects (i32: picture, digit, left, top, width, height);
//! for `shapes-3d` volumes (f32) and classes (u8).

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use dyno_task::data::digit_boxes::Scene;
use dyno_task::data::part::Part;
use dyno_task::data::shapes3d::Scan;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [task, part, count, folder] = &args[..] else {
        return Err("expected digits-boxes|shapes-3d training|test COUNT FOLDER".into());
    };
    let part = match part.as_str() {
        "training" => Part::Training,
        "test" => Part::Test,
        other => return Err(format!("expected training or test, found {other}").into()),
    };
    let (count, folder) = (count.parse()?, Path::new(folder));
    std::fs::create_dir_all(folder)?;
    match task.as_str() {
        "digits-boxes" => pictures(part, count, folder),
        "shapes-3d" => volumes(part, count, folder),
        other => Err(format!("expected digits-boxes or shapes-3d, found {other}").into()),
    }
}

fn pictures(part: Part, count: u64, folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut pictures = BufWriter::new(File::create(folder.join("pictures.u8"))?);
    let mut objects = BufWriter::new(File::create(folder.join("objects.i32"))?);
    for number in 0..count {
        let scene = Scene::draw(part, number);
        pictures.write_all(&scene.pixels)?;
        for object in scene.objects {
            let sides = [object.left, object.top, object.width, object.height];
            let whole = [number as i32, i32::from(object.digit)];
            for value in whole.into_iter().chain(sides.map(|side| side as i32)) {
                objects.write_all(&value.to_le_bytes())?;
            }
        }
    }
    pictures.flush()?;
    Ok(objects.flush()?)
}

fn volumes(part: Part, count: u64, folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut volumes = BufWriter::new(File::create(folder.join("volumes.f32"))?);
    let mut classes = BufWriter::new(File::create(folder.join("classes.u8"))?);
    for number in 0..count {
        let scan = Scan::draw(part, number);
        for value in scan.brightness {
            volumes.write_all(&value.to_le_bytes())?;
        }
        classes.write_all(&scan.classes)?;
    }
    volumes.flush()?;
    Ok(classes.flush()?)
}
