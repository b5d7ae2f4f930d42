/// The version of the package, as its tag and the newest heading of `CHANGELOG.md` name it.
///
/// The programs print it, and `Tools/package` asks `waybill` for it. `Documentation/releasing.md` says when it changes.
package let packageVersion = "0.1.0"
