import FirebaseAnalytics

struct Account {
    let id: String
    let tier: String
}

struct Membership {
    func signedIn(_ account: Account) {
        Analytics.setUserID(account.id)
        Analytics.setUserProperty(account.tier, forName: "tier")
    }

    func signedOut() {
        Analytics.setUserID(nil)
        Analytics.setUserProperty(nil, forName: "tier")
    }

    func answered(analytics: Bool, ads: Bool) {
        Analytics.setConsent([
            .analyticsStorage: analytics ? .granted : .denied,
            .adUserData: ads ? .granted : .denied,
            .adPersonalization: ads ? .granted : .denied,
        ])
    }
}
