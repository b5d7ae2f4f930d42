import WaybillSystem

extension ConfigurationTable {
    /// The keys by which every program is told where it answers.
    ///
    /// - Parameters:
    ///   - part: the program's word in the names of sockets.
    ///   - port: its usual port.
    static func status<Root: ConfigurationRoot>(
        _ places: WritableKeyPath<Root, StatusPlaces>, of part: String, port: Int
    ) -> [ConfigurationKey<Root>] {
        let address = "127.0.0.1:\(port)"
        return [
            ConfigurationKey(
                "metrics", .address, optional: places.appending(path: \.metrics), option: "--metrics", example: address,
                "Serve GET /metrics (Prometheus), /livez, /readyz and /status at this address, e.g. \(address)."),
            ConfigurationKey(
                "status_socket", .text, optional: places.appending(path: \.socket), option: "--status-socket",
                example: "/run/waybill/\(part).sock",
                "Serve the same at a UNIX socket, which its owner and group may open; `waybill status` asks there."),
            ConfigurationKey(
                "status_token_file", .file, optional: places.appending(path: \.tokenFile), applies: .reload,
                example: "status.token",
                "The file with the token that other machines must show for GET /status; without it they get none."),
        ]
    }
}
