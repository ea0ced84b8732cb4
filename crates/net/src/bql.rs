//! stub
use lowtail_engine::Time;
/// stub
#[derive(Debug, Default)]
pub struct Dql;
impl Dql {
    /// stub
    pub fn available(&self) -> bool {
        true
    }
    /// stub
    pub fn queued(&mut self, _: u32) {}
    /// stub
    pub fn completed(&mut self, _: u32, _: Time) {}
}
