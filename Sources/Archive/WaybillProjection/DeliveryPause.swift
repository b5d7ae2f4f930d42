package import WaybillData
package import WaybillSystem

/// What tells running deliveries that an erasure waits for them: a file, whose content does not matter.
///
/// A delivery that finds it begins no other part, releases its lock between two parts, and continues once it is gone.
package enum DeliveryPause {
    package static func path(in data: DataDirectory<some FileSystem>) -> String {
        Path.join(data.state, "erasure.waits")
    }
}
