#if PLANTED
    internal import PlantedJSON

    /// The tape as `Tools/fuzz --planted` leaves it: its room is a formula over the length, and nothing is compared with it.
    enum PlantedTape {
        static func read(_ input: [UInt8]) {
            var tape = JSONTape()
            withExactBytes(input) { _ = tape.accepts($0) }
        }
    }
#endif
