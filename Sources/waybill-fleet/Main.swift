import WaybillCommands

/// The program `waybill-fleet`: `waybill` with the client of a bucket.
///
/// A separate program, so that agents and receivers without a bucket do not carry the dependencies of an HTTP client.
@main
enum Main {
    static func main() async {
        await WaybillProgram.main()
    }
}
