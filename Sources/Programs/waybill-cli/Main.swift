import WaybillCommands

/// The program `waybill`.
@main
enum Main {
    static func main() async {
        await WaybillProgram.main()
    }
}
