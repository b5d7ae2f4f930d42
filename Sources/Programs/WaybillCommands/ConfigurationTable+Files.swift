import WaybillExport

/// The options of exports that are read as files.
extension ConfigurationTable {
    @KeyList<ExportOptions> static var csv: [ConfigurationKey<ExportOptions>] {
        option("zone", .choice, \.csv.zone, "The time zone of `Time`: the export's, or the one the device was in.")
        option("millis", .flag, \.csv.hasMilliseconds, "`Time` has milliseconds.")
        option("bom", .flag, \.csv.hasByteOrderMark, "Begin with a byte order mark, for Excel.")
        option("guard", .flag, \.csv.isGuarded, "Write `'` before what a spreadsheet would calculate.")
        option("others", .choice, \.csv.others, "Fields share one cell, or each has a cell of its own.")
        option("users", .flag, \.csv.includesUsers, "Write `user` events too.")
        option("id", .flag, \.csv.hasID, "Write the event's id in an eighth column.")
    }

    @KeyList<ExportOptions> static var syslog: [ConfigurationKey<ExportOptions>] {
        option("facility", .integer(0...23), \.syslog.facility, "The facility; 16 is local use 0.")
        option(
            "host",
            .text(
                rule: "1 to \(Limits.Syslog.hostNameByteCountMax) printable ASCII characters without spaces",
                isValid: SyslogOptions.isHostName), \.syslog.hostName, "HOSTNAME of every message.")
        option(
            "enterprise", .integer(1...4_294_967_295), \.syslog.enterprise,
            "Your enterprise number; the default is reserved for examples.")
        option(
            "max", .messageByteCount, \.syslog.messageByteCountMax, unit: "bytes",
            "The longest message; 0 for no limit.")
        option("user", .flag, \.syslog.includesUser, "Messages name the user.")
    }
}

extension SyslogOptions {
    /// The number in the name of the structured data.
    fileprivate var enterprise: Int {
        get { Int(self.elementName.drop { $0 != "@" }.dropFirst()) ?? 0 }
        set { self.elementName = "wb@\(newValue)" }
    }
}
