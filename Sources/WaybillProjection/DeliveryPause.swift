package import WaybillArchive
package import WaybillSystem

/// What tells running deliveries that an erasure waits for them: a file, whose content does not matter.
///
/// A delivery that finds it begins no other part, lets go of its lock between two parts, and goes on once it is gone.
package enum DeliveryPause {
    package static func path(in data: DataDirectory<some FileSystem>) -> String {
        Path.join(data.state, "erasure.waits")
    }
}
