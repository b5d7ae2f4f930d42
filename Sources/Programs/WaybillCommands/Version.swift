/// The version of the package; its tag and the newest heading of `CHANGELOG.md` have the same one.
///
/// The programs print it, and `Tools/package` asks `waybill` for it. `Documentation/releasing.md` describes when it
/// changes.
package let packageVersion = "0.1.0"

/// The day on which this version was made: a machine whose clock shows an earlier one has a wrong clock.
///
/// It is a constant, so that two builds of one commit are alike; `Documentation/releasing.md` describes when it changes.
package let packageDate = "2026-11-22"
