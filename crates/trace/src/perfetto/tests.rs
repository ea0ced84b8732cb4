//! What is written, decoded with the declarations that it was written with.

use super::*;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

fn decoded(bytes: &[u8]) -> Vec<TracePacket> {
    Trace::decode(bytes).unwrap().packet
}

#[test]
fn slices_marks_and_names() {
    let mut writer = Writer::new(Vec::new(), "title").unwrap();
    let vcpu = writer.vcpu("d1v0").unwrap();
    writer.run(1, "d1v0", 10, 20).unwrap();
    writer.run(1, "d1v0", 20, 20).unwrap();
    writer.state(vcpu, State::Waiting, "woken", 5, 10).unwrap();
    writer.mark(vcpu, 7, "tickled").unwrap();
    let packets = decoded(&writer.finish().unwrap());
    let tracks: Vec<_> =
        packets.iter().filter_map(|packet| packet.track_descriptor.as_ref()).collect();
    let names: Vec<_> = tracks.iter().map(|track| track.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["title", "pCPUs", "vCPUs", "d1v0", "pCPU 1"]);
    assert_eq!(tracks[4].parent_uuid, Some(UUID_PCPUS));
    let events: Vec<_> = packets
        .iter()
        .filter_map(|packet| {
            let event = packet.track_event.as_ref()?;
            Some((packet.timestamp?, event.r#type?, event.name_iid.unwrap_or(0)))
        })
        .collect();
    // Names 1 "d1v0", 2 "waiting: woken", 3 "tickled".
    assert_eq!(
        events,
        [(10, 1, 1), (20, 2, 0), (20, 1, 1), (20, 2, 0), (5, 1, 2), (10, 2, 0), (7, 3, 3)]
    );
}

#[test]
fn sections_share_no_tracks() {
    let mut writer = Writer::new(Vec::new(), "one").unwrap();
    writer.run(0, "a", 10, 20).unwrap();
    writer.section("two").unwrap();
    writer.run(0, "a", 0, 5).unwrap();
    let vcpu = writer.vcpu("a").unwrap();
    writer.mark(vcpu, 3, "here").unwrap();
    let packets = decoded(&writer.finish().unwrap());
    let tracks = packets.iter().filter_map(|packet| packet.track_descriptor.as_ref());
    let uuids: std::collections::HashSet<_> = tracks.map(|track| track.uuid).collect();
    // Two roots, twice pCPUs and vCPUs, two pCPUs and a vCPU.
    assert_eq!(uuids.len(), 9);
    let times: Vec<_> = packets.iter().filter_map(|packet| packet.timestamp).collect();
    // The second schedule may begin before the first has ended.
    assert_eq!(times, [10, 20, 0, 5, 3]);
}

#[test]
fn counters_have_a_group_of_their_own() {
    let mut writer = Writer::new(Vec::new(), "one").unwrap();
    let a = writer.counter("A").unwrap();
    let b = writer.counter("B").unwrap();
    writer.value(a, 5, 1500).unwrap();
    writer.value(b, 3, 0).unwrap();
    let packets = decoded(&writer.finish().unwrap());
    let tracks: Vec<_> =
        packets.iter().filter_map(|packet| packet.track_descriptor.as_ref()).collect();
    let names: Vec<_> = tracks.iter().map(|track| track.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["one", "pCPUs", "vCPUs", "queues", "A", "B"]);
    assert!(tracks[..4].iter().all(|track| track.counter.is_none()));
    assert_eq!(tracks[4].parent_uuid, tracks[3].uuid);
    let values: Vec<_> = packets
        .iter()
        .filter_map(|packet| {
            let event = packet.track_event.as_ref()?;
            Some((packet.timestamp?, event.track_uuid?, event.counter_value?))
        })
        .collect();
    let uuid = |i: usize| tracks[i].uuid.unwrap();
    assert_eq!(values, [(5, uuid(4), 1500), (3, uuid(5), 0)]);
}

#[test]
fn overlapping_slices_are_cut() {
    let mut writer = Writer::new(Vec::new(), "").unwrap();
    writer.run(0, "a", 10, 20).unwrap();
    writer.run(0, "b", 15, 18).unwrap();
    let times: Vec<_> =
        decoded(&writer.finish().unwrap()).iter().filter_map(|packet| packet.timestamp).collect();
    assert_eq!(times, [10, 20, 20, 20]);
}
