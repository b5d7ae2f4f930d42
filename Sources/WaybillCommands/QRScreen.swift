#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A QR code on a terminal, two rows of modules in each line of text.
///
/// Its colours are black and white of the fixed part of the 256 colours, on terminals with a light and with a dark
/// background: a camera takes a light code on dark for nothing.
struct QRScreen {
    /// Why a code is not shown.
    enum Obstacle: Equatable {
        /// Nobody can see it: the output is a file or a pipe, or a terminal without colours.
        case noTerminal
        case tooNarrow(columns: Int, needed: Int)
        case tooLong
    }

    /// The light modules around a code, which readers need (ISO/IEC 18004, 6.3.8).
    private static let border = 4

    /// The lines to write, or why there are none.
    ///
    /// - Parameter columns: how wide the terminal is; `nil` without a terminal.
    static func lines(of text: String, columns: Int?) -> Result<[String], Failure> {
        guard let columns else { return .failure(Failure(.noTerminal)) }
        guard let code = QRCode(Array(text.utf8)) else { return .failure(Failure(.tooLong)) }
        let width = code.size + 2 * Self.border
        guard width <= columns else { return .failure(Failure(.tooNarrow(columns: columns, needed: width))) }
        return .success(
            stride(from: -Self.border, to: code.size + Self.border, by: 2).map { row in
                (-Self.border..<(code.size + Self.border)).map { column in
                    Self.cell(code[row, column], code[row + 1, column])
                }.joined() + "\u{1B}[0m"
            })
    }

    struct Failure: Error, Equatable {
        let obstacle: Obstacle

        init(_ obstacle: Obstacle) { self.obstacle = obstacle }
    }

    /// One character: the upper half has the colour of the letter, the lower half that of the background.
    private static func cell(_ isUpperDark: Bool, _ isLowerDark: Bool) -> String {
        "\u{1B}[38;5;\(Self.colour(isUpperDark));48;5;\(Self.colour(isLowerDark))m▀"
    }

    private static func colour(_ isDark: Bool) -> Int { isDark ? 16 : 231 }

    /// How wide the terminal at a descriptor is; `nil` if it is not one, or not one with colours.
    ///
    /// - Parameter kind: the terminal's name, from the environment (`TERM`).
    static func columns(of descriptor: Int32, kind: String?) -> Int? {
        guard isatty(descriptor) == 1, let kind, !kind.isEmpty, kind != "dumb" else { return nil }
        var size = winsize()
        // One that does not know its size has the usual one.
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }
}
