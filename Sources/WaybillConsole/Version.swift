/// The version of the package; its tag and the newest heading of `CHANGELOG.md` have the same one.
///
/// The programs print it, and `Tools/package` asks `waybill` for it. `Documentation/releasing.md` describes when it
/// changes.
package let packageVersion = "0.1.0"
