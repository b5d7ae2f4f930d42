/// What a browser's user agent says beyond doubt: its system.
///
///     Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 …    Android
///     Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) …          nothing: an iPad says the same
///
/// Browsers freeze versions and models and imitate each other's names, so that only a list which is updated every month
/// reads the rest; providers that have one get the text as it is.
enum UserAgent {
    /// The beginnings of the first comment that one system alone has.
    private static let systems: [(start: String, name: String)] = [
        ("iPhone;", "iOS"), ("iPad;", "iOS"), ("iPod", "iOS"), ("Linux; Android", "Android"),
        ("Linux; U; Android", "Android"), ("Android", "Android"), ("Windows NT", "Windows"), ("X11; CrOS", "Chrome OS"),
    ]

    /// The system; `nil` if more than one says the same.
    static func system(of text: String) -> String? {
        guard text.hasPrefix("Mozilla/5.0 (") else { return nil }
        let comment = text.dropFirst(13)
        return self.systems.first { comment.hasPrefix($0.start) }?.name
    }
}
