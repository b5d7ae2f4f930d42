/// Guesses which name was meant by a misspelled one.
package enum NearestName {
    /// - Returns: the name with the fewest edits, if only a few letters differ.
    package static func find(_ name: String, in names: [String]) -> String? {
        let nearest = names.map { ($0, Self.distance(Array(name.lowercased()), Array($0.lowercased()))) }.min {
            $0.1 < $1.1
        }
        guard let (found, distance) = nearest, distance <= max(1, min(name.count, found.count) / 2) else { return nil }
        return found
    }

    /// The number of letters to insert, delete or replace, or of neighbours to swap.
    private static func distance(_ a: [Character], _ b: [Character]) -> Int {
        var rows = [Array(0...b.count)]
        for (i, letter) in a.enumerated() {
            var row = [i + 1]
            for (j, other) in b.enumerated() {
                var cost = min(row[j], rows[i][j + 1]) + 1
                cost = min(cost, rows[i][j] + (letter == other ? 0 : 1))
                if i > 0, j > 0, letter == b[j - 1], a[i - 1] == other { cost = min(cost, rows[i - 1][j - 1] + 1) }
                row.append(cost)
            }
            rows.append(row)
        }
        return rows[a.count][b.count]
    }
}
