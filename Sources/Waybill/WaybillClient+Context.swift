public import WaybillEvent

/// Where later events belong: a group of users, and the campaign that brought the user.
extension WaybillClient {
    /// Sets the group that the user acts for, such as a company, for this and all later events.
    ///
    ///     waybill.setGroup("company", "c-17", traits: ["plan": "enterprise"])
    ///
    /// Later events have the fields `group_type` and `group_id`; exports map the id to the providers' groups. There is one
    /// group at a time. An event `set_group` with these fields, and the traits in an object `traits`, is stored: no export
    /// writes a group's profile from it. A type has 1 to 64 bytes and an id 1 to 256: otherwise nothing changes, and the
    /// outcome is `dropped(.invalid)`.
    ///
    /// - Parameters:
    ///   - type: the kind of group.
    ///   - id: the app's id of the group; `nil` if the user acts for none any more.
    ///   - traits: properties of the group; `nil` removes one.
    @discardableResult
    public func setGroup(
        _ type: String, _ id: String?, traits: KeyValuePairs<String, (any FieldValue)?> = [:]
    ) -> TrackOutcome {
        guard (1...64).contains(type.utf8.count), id.map({ (1...256).contains($0.utf8.count) }) != false else {
            return self.core.drop(.invalid)
        }
        if let id {
            guard self.register(["group_type": type, "group_id": id]) else { return self.core.drop(.tooLarge) }
        } else {
            self.unregister("group_type", "group_id")
        }
        return self.track("set_group") { fields in
            fields.put("group_type", type)
            fields.put("group_id", id)
            if !traits.isEmpty { fields.put("traits", object: { $0.put(traits: traits) }) }
        }
    }

    /// Adds the campaign in a URL with which the app was opened to later events.
    ///
    ///     waybill.setCampaign(from: "https://shop.example/p/17?utm_source=mail&utm_campaign=spring&gclid=Cj0K")
    ///
    /// They get the parameters as fields: `utm_source`, `utm_medium`, `utm_campaign`, `utm_id`, `utm_term`,
    /// `utm_content`, `utm_source_platform`, `utm_creative_format`, `utm_marketing_tactic`, and the ids of clicks
    /// `gclid`, `gbraid`, `wbraid`, `dclid`, `fbclid`, `msclkid`, `ttclid`, `twclid`, `li_fat_id`, `rdt_cid` and `ScCid`.
    /// A user who denies ads has no ids of clicks in later events. The parameters replace those of an earlier campaign.
    /// They are gone after ``reset()`` and after a restart. Only the first 8 KiB of the URL are read; values of more than
    /// 255 bytes are left out.
    ///
    /// - Parameter url: a URL of any scheme.
    /// - Returns: `false`, without any change, if the URL names no campaign or there are too many registered fields.
    @discardableResult
    public func setCampaign(from url: String) -> Bool {
        let names = self.consent?.ads == false ? Campaign.campaignNames : Campaign.names
        let parameters = Campaign(of: url, names: names).parameters
        guard !parameters.isEmpty else { return false }
        let isRegistered = self.register { fields in
            for parameter in parameters { fields.put(parameter.name, parameter.value) }
        }
        guard isRegistered else { return false }
        let found = Set(parameters.map(\.name))
        self.core.unregister(Campaign.names.filter { !found.contains($0) })
        return true
    }
}
