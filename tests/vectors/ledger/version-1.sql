-- A ledger of endmark's first version, an attempt in every state and a merged decision. The newest must bring it up.
PRAGMA application_id=1701733485;
BEGIN TRANSACTION;
CREATE TABLE answers (review INTEGER PRIMARY KEY REFERENCES reviews (n), body BLOB NOT NULL);
INSERT INTO "answers" VALUES(1,X'4D4331202E2E2E');
INSERT INTO "answers" VALUES(2,X'4D4331202E2E2E');
CREATE TABLE attempts (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    attempt_id TEXT NOT NULL UNIQUE CHECK (attempt_id GLOB 'att_?*'),
    job_id TEXT CHECK (job_id <> ''),
    owner INTEGER NOT NULL CHECK (owner IN (0, 1)),
    kind TEXT NOT NULL CHECK (kind IN ('plan', 'revert')),
    state TEXT NOT NULL CHECK (typeof(state) = 'text'),
    signal TEXT NOT NULL,
    received_bytes INTEGER NOT NULL CHECK (typeof(received_bytes) = 'integer' AND received_bytes >= 0),
    expected_bytes INTEGER CHECK (expected_bytes >= 0),
    body_sha256 TEXT NOT NULL CHECK (length(body_sha256) = 64),
    sha256 TEXT CHECK (length(sha256) = 64),
    stmt_count INTEGER CHECK (stmt_count IS NULL OR (typeof(stmt_count) = 'integer' AND stmt_count > 0)),
    level TEXT,
    submitter TEXT,
    target TEXT,
    evidence TEXT NOT NULL,
    detail TEXT NOT NULL,
    statements_run INTEGER
        CHECK (statements_run IS NULL OR (typeof(statements_run) = 'integer' AND statements_run >= 0)),
    approver TEXT,
    approved_fingerprint TEXT,
    fingerprint_before TEXT,
    fingerprint_after TEXT,
    backup TEXT,
    statement_rows TEXT,
    received_at TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    events INTEGER NOT NULL,
    head BLOB NOT NULL CHECK (typeof(head) = 'blob' AND length(head) = 32),
    CONSTRAINT proven CHECK ((sha256 IS NOT NULL AND stmt_count IS NOT NULL) OR state IN ('received', 'truncated', 'rejected', 'quarantined', 'incomplete'))
);
INSERT INTO "attempts" VALUES(1,'att_01m8p570g0g0hshttb9x5771vh','old-applied',1,'plan','applied','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',5,X'C3121AAEA2E03FB022F1B44DCCD346F97A1CEB0C91CEB424709FC29147DE19CA');
INSERT INTO "attempts" VALUES(2,'att_01m8p570g07wj7q0kbftc1b8jy','old-applying',1,'plan','applying','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',4,X'9A9664300F9F4583385C794511A0A99435852D63CFAE65028E167A37A40D9B05');
INSERT INTO "attempts" VALUES(3,'att_01m8p570g0xfadzb4906cveg5z','old-approved',1,'plan','approved','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',3,X'BF36177E5164F2FCBE29A9FB90BF9FB2F1B4CB4BA65A4C6F51E62E589419C12E');
INSERT INTO "attempts" VALUES(4,'att_01m8p570g0t9ga65k6hs2h9byq','old-declined',1,'plan','declined','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',3,X'35A18594A7504B40945370CAEC8C1D78F3CB4D013F9633A9FAB1CC0299C36AEE');
INSERT INTO "attempts" VALUES(5,'att_01m8p570g00d9c0jkvgs3drfwd','old-failed',1,'plan','failed','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',5,X'46FDF5A951E92F74CEFDF86AC20544F35A760A261A635F795C7BDA52A14AA90C');
INSERT INTO "attempts" VALUES(6,'att_01m8p570g0m6wv4k62knj69y7q','old-incomplete',1,'plan','incomplete','body-cut',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',NULL,NULL,NULL,'agent',NULL,'','the body ended early',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'F8D16677930B4CC2F63A8FB9E4D7D18C0C5EDD0715F312BE869BE72BEC0084B7');
INSERT INTO "attempts" VALUES(7,'att_01m8p570g0dfpxsb31z24e8vrz','old-partial',1,'plan','partial','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',5,X'F9E805FE2E21B1482EC302BBFD08936771D522825431581824E55E9C6A99E654');
INSERT INTO "attempts" VALUES(8,'att_01m8p570g08hp3swqdjnn6h2eh','old-quarantined',1,'plan','quarantined','body-cut',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',NULL,NULL,NULL,'agent',NULL,'','the body ended early',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'9E4640C97F6AEDD7064E401AF8D137326C33632B478D4BCB0CF406CD724C4440');
INSERT INTO "attempts" VALUES(9,'att_01m8p570g046fhhq2qgn7bxyf1','old-rejected',1,'plan','rejected','body-cut',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',NULL,NULL,NULL,'agent',NULL,'','the body ended early',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'9DF2A86C246F2D0522DC5B300C94057F616EEBA79AD92EE1B9EA03A0C45A53BE');
INSERT INTO "attempts" VALUES(10,'att_01m8p570g0xhzjq3em8s229f1b','old-settled',1,'plan','settled','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',6,X'F17F91FB02ABB1CD6E8436C2101A595CBF4355C4C8075FDAD6215C0FD804061A');
INSERT INTO "attempts" VALUES(11,'att_01m8p570g0xcm10ah8am9svn99','old-staged',1,'plan','staged','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'91C3CE92D5A4901EBE8EBC1049A1975859713B3C8FAF34B34308E6EB4794D3BC');
INSERT INTO "attempts" VALUES(12,'att_01m8p570g0bz9n208zzyz6wn5n','old-stale',1,'plan','stale','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',3,X'08BD55C353792F725D64B930283D4FA12387704EF838A10C72E5A7C16B13B1CC');
INSERT INTO "attempts" VALUES(13,'att_01m8p570g0pcdy4r5z3sj08je0','old-truncated',1,'plan','truncated','body-cut',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',NULL,NULL,NULL,'agent',NULL,'','the body ended early',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'29095B48AA7644B3954662BEF6FC14C36251642A2E8BA9CA54782E1FDA3E7A9B');
CREATE TABLE bodies (attempt INTEGER PRIMARY KEY REFERENCES attempts (n), body BLOB NOT NULL);
INSERT INTO "bodies" VALUES(1,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(2,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(3,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(4,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(5,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(6,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(7,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(8,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(9,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(10,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(11,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(12,X'7B22746F6F6C223A226170706C795F736368656D61227D');
INSERT INTO "bodies" VALUES(13,X'7B22746F6F6C223A226170706C795F736368656D61227D');
CREATE TABLE checkpoints (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    first_event INTEGER NOT NULL,
    last_event INTEGER NOT NULL CHECK (last_event >= first_event),
    at TEXT NOT NULL,
    hash BLOB NOT NULL CHECK (typeof(hash) = 'blob' AND length(hash) = 32)
);
INSERT INTO "checkpoints" VALUES(1,1,51,'2026-11-30T12:00:00.000250Z',X'79C1609B4A034A64D3266018BCF8788ABC5C5B848BC95CC4B9071D1E60E36D08');
CREATE TABLE decisions (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    decision_id TEXT NOT NULL UNIQUE CHECK (decision_id GLOB 'dec_?*'),
    repository TEXT NOT NULL CHECK (repository <> ''),
    ref TEXT NOT NULL CHECK (ref GLOB 'refs/?*'),
    base TEXT NOT NULL CHECK (base <> ''),
    head TEXT NOT NULL CHECK (head <> ''),
    merge_tree TEXT,
    records_sha TEXT CHECK (length(records_sha) = 64),
    diff_sha TEXT CHECK (length(diff_sha) = 64),
    policy_version TEXT NOT NULL CHECK (policy_version <> ''),
    policy_sha256 TEXT NOT NULL CHECK (length(policy_sha256) = 64),
    required TEXT NOT NULL CHECK (json_array_length(required) > 0),
    submitter TEXT,
    opened_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (typeof(state) = 'text'),
    signal TEXT NOT NULL,
    evidence TEXT NOT NULL,
    detail TEXT NOT NULL,
    merged TEXT CHECK (merged <> ''),
    approver TEXT,
    changed_at TEXT NOT NULL,
    events INTEGER NOT NULL,
    chain BLOB NOT NULL CHECK (typeof(chain) = 'blob' AND length(chain) = 32),
    CONSTRAINT bound CHECK ((diff_sha IS NOT NULL AND merge_tree IS NOT NULL AND records_sha IS NOT NULL)
        OR state IN ('pending', 'incomplete')),
    CONSTRAINT receipt CHECK ((merged IS NOT NULL) = (state = 'merged'))
);
INSERT INTO "decisions" VALUES(1,'dec_01m8p570g0k1sxfpmbscrdqthg','file:///srv/app.git','refs/heads/main','1111111111111111111111111111111111111111','2222222222222222222222222222222222222222','3333333333333333333333333333333333333333','4444444444444444444444444444444444444444444444444444444444444444','dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd','gate-2026-07','9999999999999999999999999999999999999999999999999999999999999999','["sec","style"]','ci','2026-11-30T12:00:00.000250Z','merged','complete','sealed','','5555555555555555555555555555555555555555','ann','2026-11-30T12:00:00.000250Z',7,X'AEDD97FB9E560DF0F5744D2FA6D5461A84EE168390C763AB78D981B987B9355A');
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    attempt INTEGER REFERENCES attempts (n),
    decision INTEGER REFERENCES decisions (n),
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (typeof(hash) = 'blob' AND length(hash) = 32),
    at TEXT NOT NULL,
    event TEXT NOT NULL CHECK (event GLOB '[a-z]*'),
    from_state TEXT,
    to_state TEXT,
    data TEXT NOT NULL CHECK (typeof(data) = 'text'),
    UNIQUE (attempt, seq),
    CONSTRAINT of_one CHECK ((attempt IS NULL) <> (decision IS NULL))
);
INSERT INTO "events" VALUES(1,1,NULL,1,X'8B559E069672E75F381BC00FCD38CEC89BA79A7B1DE3A30C8D498423CFCC8CD5','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-applied","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(2,1,NULL,2,X'B27211A35B2CEE13457F44826671EE881F81F8AD8F06CFA8D6D959ED656F803A','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(3,1,NULL,3,X'CB16856AC3452A1B97248766B2E012E72AA86A03F3BFBBCA3E13F52979F4CDD6','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(4,1,NULL,4,X'5F46F0411E2347EF74C5BDD4D96BD1D7DA2C3D3C2FE0DDF55BD890F390A69EE8','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(5,1,NULL,5,X'C3121AAEA2E03FB022F1B44DCCD346F97A1CEB0C91CEB424709FC29147DE19CA','2026-11-30T12:00:00.000250Z','moved','applying','applied','{}');
INSERT INTO "events" VALUES(6,2,NULL,1,X'E42F8524F9E575EDEABAADD7B10A93F05A277F32EE5CFDAF9466F2171FFBDAC8','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-applying","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(7,2,NULL,2,X'CD503823B68B5C06A0C1D12F9B8A245F22A0B4B5802AE0B2D8281403C26E6538','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(8,2,NULL,3,X'8CE9C859B8AC043D35BF0A497B6C40F375DBCE84AA29ED4AF4EA41EBCEF78E29','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(9,2,NULL,4,X'9A9664300F9F4583385C794511A0A99435852D63CFAE65028E167A37A40D9B05','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(10,3,NULL,1,X'FE6F9553BBD9AC5FD75933021127C1482EC211FC6FEAC3257C7AA1C985C3B01B','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-approved","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(11,3,NULL,2,X'565A30D153304675D73D12FB018F69B4A9CEAF18EA96F6C10F8BE901EE0885D7','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(12,3,NULL,3,X'BF36177E5164F2FCBE29A9FB90BF9FB2F1B4CB4BA65A4C6F51E62E589419C12E','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(13,4,NULL,1,X'76C9FB4E92DAAC11E787DAD007390F77884BB2998372152AA320D73F494AB8DB','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-declined","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(14,4,NULL,2,X'F2FEB1B2E9CBEC1E0A7CA2B5B826FB100386615329C946495E1F208428E0396E','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(15,4,NULL,3,X'35A18594A7504B40945370CAEC8C1D78F3CB4D013F9633A9FAB1CC0299C36AEE','2026-11-30T12:00:00.000250Z','moved','staged','declined','{}');
INSERT INTO "events" VALUES(16,5,NULL,1,X'B18E980D585A7B67E1EDFB60DFA291769B930CFB3CC1296EC006063726A776D8','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-failed","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(17,5,NULL,2,X'717F953FC1C1CD2940B8F691BA8CDA02A80707AC41205AA483A98241574AD01E','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(18,5,NULL,3,X'F4CDD5390E59EEA33D93181B6CF2F75F913817913D1B19F9CBB4BBCDB3E1F890','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(19,5,NULL,4,X'A748A2CD80CA3CA3EECC6C36A61C049599574B3AA79C78AAC07F52C33EA6AFA6','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(20,5,NULL,5,X'46FDF5A951E92F74CEFDF86AC20544F35A760A261A635F795C7BDA52A14AA90C','2026-11-30T12:00:00.000250Z','moved','applying','failed','{}');
INSERT INTO "events" VALUES(21,6,NULL,1,X'3A8C89ABFE26C6CE8DBE36794758C0A3861B4AC93486C5751399DC8E99A3A510','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-incomplete","owner":true,"kind":"plan","signal":"body-cut","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","evidence":[],"detail":"the body ended early","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(22,6,NULL,2,X'F8D16677930B4CC2F63A8FB9E4D7D18C0C5EDD0715F312BE869BE72BEC0084B7','2026-11-30T12:00:00.000250Z','moved','received','incomplete','{}');
INSERT INTO "events" VALUES(23,7,NULL,1,X'8F60736AD06CC50F37324245E473F36A1FF0AE2DA33475163F4E875DF77DA92A','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-partial","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(24,7,NULL,2,X'AE40A9323C4E8D859B331FE495B11BA74EC4FCEC165694C9D2656955C66A5532','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(25,7,NULL,3,X'12B740325260F110B9AD66B07360F46B67043C2A6028626A52864D1E3D739D5A','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(26,7,NULL,4,X'CAFDD9C0FB8BBB446AE40E97D8B67988A170A080336C02AACA4269D3AEED9841','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(27,7,NULL,5,X'F9E805FE2E21B1482EC302BBFD08936771D522825431581824E55E9C6A99E654','2026-11-30T12:00:00.000250Z','moved','applying','partial','{}');
INSERT INTO "events" VALUES(28,8,NULL,1,X'A1B498B32F26FC888047F0F635578077AD819DE7A0CE9EA93A7A11C63322504E','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-quarantined","owner":true,"kind":"plan","signal":"body-cut","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","evidence":[],"detail":"the body ended early","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(29,8,NULL,2,X'9E4640C97F6AEDD7064E401AF8D137326C33632B478D4BCB0CF406CD724C4440','2026-11-30T12:00:00.000250Z','moved','received','quarantined','{}');
INSERT INTO "events" VALUES(30,9,NULL,1,X'EB93CC604445C7A8A661CDF9681739DE5E32075C6233667E46CC3B182BE66AD5','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-rejected","owner":true,"kind":"plan","signal":"body-cut","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","evidence":[],"detail":"the body ended early","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(31,9,NULL,2,X'9DF2A86C246F2D0522DC5B300C94057F616EEBA79AD92EE1B9EA03A0C45A53BE','2026-11-30T12:00:00.000250Z','moved','received','rejected','{}');
INSERT INTO "events" VALUES(32,10,NULL,1,X'6BB76A847B19D2478177C1E8818D837E32B2F1FE7D9A8B462E849695A1F60868','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-settled","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(33,10,NULL,2,X'749F8D3EF0D8A0D1858A4DAA1E47C94B1272C56DAB22DBB29F110F319F05DFCA','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(34,10,NULL,3,X'AB9740845C67A36A9B17C62741B04A6265EE40143BA98EF9CC71F15347045E47','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(35,10,NULL,4,X'D138A059E48664CDF10FBC04189600CD0930BDBF8A3A179CF1CF343EB49E8E2F','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(36,10,NULL,5,X'1E0C2DFF09F26CF85E2C19A805789FF6D0D5AAA8286C8E96E35B87C6909DED2D','2026-11-30T12:00:00.000250Z','moved','applying','partial','{}');
INSERT INTO "events" VALUES(37,10,NULL,6,X'F17F91FB02ABB1CD6E8436C2101A595CBF4355C4C8075FDAD6215C0FD804061A','2026-11-30T12:00:00.000250Z','moved','partial','settled','{}');
INSERT INTO "events" VALUES(38,11,NULL,1,X'BB4EA2DB870B3CBA787658FDC25547E96F7E1511D4ED7782D500329692CEEF04','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-staged","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(39,11,NULL,2,X'91C3CE92D5A4901EBE8EBC1049A1975859713B3C8FAF34B34308E6EB4794D3BC','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(40,12,NULL,1,X'3202CC325DFE8658E9D9A1EC6456BEC88A2C84F77DFCE94698968F36C3C4C540','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-stale","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(41,12,NULL,2,X'8841914EB68EEE556AE5A0F1DE9CBE301955CA44111688CF5C2D36A01DE2240F','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(42,12,NULL,3,X'08BD55C353792F725D64B930283D4FA12387704EF838A10C72E5A7C16B13B1CC','2026-11-30T12:00:00.000250Z','moved','staged','stale','{}');
INSERT INTO "events" VALUES(43,13,NULL,1,X'2E867AD166374D0F096E4D94837A55F56E6A6C6B8147803138E1C4EA27EDB2CC','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-truncated","owner":true,"kind":"plan","signal":"body-cut","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","evidence":[],"detail":"the body ended early","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(44,13,NULL,2,X'29095B48AA7644B3954662BEF6FC14C36251642A2E8BA9CA54782E1FDA3E7A9B','2026-11-30T12:00:00.000250Z','moved','received','truncated','{}');
INSERT INTO "events" VALUES(45,NULL,1,1,X'73287EDDF505A9DF9EDA433C984448070C45619318B53F6D58548CFDFFFFE85A','2026-11-30T12:00:00.000250Z','opened',NULL,'pending','{"set":{"repository":"file:///srv/app.git","ref":"refs/heads/main","base":"1111111111111111111111111111111111111111","head":"2222222222222222222222222222222222222222","merge_tree":"3333333333333333333333333333333333333333","records_sha":"4444444444444444444444444444444444444444444444444444444444444444","diff_sha":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","policy_version":"gate-2026-07","policy_sha256":"9999999999999999999999999999999999999999999999999999999999999999","required":"[\"sec\",\"style\"]","submitter":"ci","signal":"complete","evidence":"","detail":"","merged":null,"approver":null}}');
INSERT INTO "events" VALUES(46,NULL,1,2,X'F4F926F3C3839978C2B25FB90ECAE0CE976E753AE7BE15A7710D1C821D46F940','2026-11-30T12:00:00.000250Z','asked',NULL,'asked','{"review":"dec_01m8p570g0k1sxfpmbscrdqthg-sec","set":{"reviewer":"sec","review_id":"dec_01m8p570g0k1sxfpmbscrdqthg-sec","purpose":"review"}}');
INSERT INTO "events" VALUES(47,NULL,1,3,X'F2B6AE0A8DCDE889429C587025B536D2FEA1E73A56CE274E75DA4B3FA4B0A2B3','2026-11-30T12:00:00.000250Z','answered','asked','pass','{"review":"dec_01m8p570g0k1sxfpmbscrdqthg-sec","set":{"signal":"complete","received_bytes":7,"expected_bytes":3,"body_sha256":"24159270c08f53d923be1cf096323c8fe773a7cc12bee4a1636e8a8cd426545c","level":"sealed","evidence":"sealed\nsentinel","detail":"","blocking":0,"advisory":2},"body_kept":true}');
INSERT INTO "events" VALUES(48,NULL,1,4,X'C06BD0166BBBC668E6C037CEC442F7142C18BB40BED108524977E30FC3064204','2026-11-30T12:00:00.000250Z','asked',NULL,'asked','{"review":"dec_01m8p570g0k1sxfpmbscrdqthg-style","set":{"reviewer":"style","review_id":"dec_01m8p570g0k1sxfpmbscrdqthg-style","purpose":"review"}}');
INSERT INTO "events" VALUES(49,NULL,1,5,X'16DB8FC48195D70F5EE5A5F45C3AFDF8F58E08147099FA63F599343C54605604','2026-11-30T12:00:00.000250Z','answered','asked','pass','{"review":"dec_01m8p570g0k1sxfpmbscrdqthg-style","set":{"signal":"complete","received_bytes":7,"expected_bytes":3,"body_sha256":"24159270c08f53d923be1cf096323c8fe773a7cc12bee4a1636e8a8cd426545c","level":"sealed","evidence":"sealed\nsentinel","detail":"","blocking":0,"advisory":2},"body_kept":true}');
INSERT INTO "events" VALUES(50,NULL,1,6,X'F99DDE95651C06E6D843950F49377E344063BC83EF96D1029924CB75E5A4D5AE','2026-11-30T12:00:00.000250Z','moved','pending','pass','{"set":{"evidence":"sealed"}}');
INSERT INTO "events" VALUES(51,NULL,1,7,X'AEDD97FB9E560DF0F5744D2FA6D5461A84EE168390C763AB78D981B987B9355A','2026-11-30T12:00:00.000250Z','moved','pass','merged','{"set":{"merged":"5555555555555555555555555555555555555555","approver":"ann"}}');
CREATE TABLE reviews (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    review_id TEXT NOT NULL UNIQUE CHECK (review_id <> ''),
    decision INTEGER NOT NULL REFERENCES decisions (n),
    reviewer TEXT NOT NULL CHECK (reviewer <> ''),
    purpose TEXT NOT NULL CHECK (purpose IN ('review', 'elsewhere', 'carried', 'replay', 'advice')),
    model TEXT,
    prompt_sha256 TEXT CHECK (length(prompt_sha256) = 64),
    shown_sha256 TEXT CHECK (length(shown_sha256) = 64),
    asked_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (typeof(state) = 'text'),
    signal TEXT,
    received_bytes INTEGER CHECK (received_bytes IS NULL OR (typeof(received_bytes) = 'integer' AND received_bytes >= 0)),
    expected_bytes INTEGER CHECK (expected_bytes IS NULL OR (typeof(expected_bytes) = 'integer' AND expected_bytes >= 0)),
    body_sha256 TEXT CHECK (length(body_sha256) = 64),
    level TEXT,
    evidence TEXT NOT NULL,
    detail TEXT NOT NULL,
    blocking INTEGER CHECK (blocking IS NULL OR (typeof(blocking) = 'integer' AND blocking >= 0)),
    advisory INTEGER CHECK (advisory IS NULL OR (typeof(advisory) = 'integer' AND advisory >= 0)),
    answered_at TEXT,
    CONSTRAINT answered CHECK (
        CASE WHEN state = 'asked' THEN signal IS NULL AND answered_at IS NULL
        ELSE signal IS NOT NULL AND answered_at IS NOT NULL AND received_bytes IS NOT NULL END),
    CONSTRAINT proven CHECK (
        state NOT IN ('pass', 'fail') OR (signal = 'complete' AND body_sha256 IS NOT NULL)),
    CONSTRAINT consistent CHECK (state <> 'pass' OR coalesce(blocking, 0) = 0)
);
INSERT INTO "reviews" VALUES(1,'dec_01m8p570g0k1sxfpmbscrdqthg-sec',1,'sec','review',NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','pass','complete',7,3,'24159270c08f53d923be1cf096323c8fe773a7cc12bee4a1636e8a8cd426545c','sealed','sealed
sentinel','',0,2,'2026-11-30T12:00:00.000250Z');
INSERT INTO "reviews" VALUES(2,'dec_01m8p570g0k1sxfpmbscrdqthg-style',1,'style','review',NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','pass','complete',7,3,'24159270c08f53d923be1cf096323c8fe773a7cc12bee4a1636e8a8cd426545c','sealed','sealed
sentinel','',0,2,'2026-11-30T12:00:00.000250Z');
CREATE UNIQUE INDEX one_owner_a_job ON attempts (job_id) WHERE owner = 1 AND job_id IS NOT NULL;
CREATE INDEX attempts_by_state ON attempts (state) WHERE state <> 'received';
CREATE INDEX decisions_by_diff ON decisions (diff_sha, policy_sha256);
CREATE INDEX decisions_by_state ON decisions (state);
CREATE INDEX decisions_by_time ON decisions (changed_at);
CREATE INDEX reviews_by_decision ON reviews (decision);
CREATE UNIQUE INDEX events_of_decisions ON events (decision, seq) WHERE decision IS NOT NULL;
CREATE TRIGGER attempts_begin_received BEFORE INSERT ON attempts
WHEN NEW.state IS NOT 'received' OR NEW.events IS NOT 1 OR CASE NEW.signal WHEN 'empty' THEN 0 WHEN 'header-cut' THEN 0 WHEN 'body-cut' THEN 0 WHEN 'no-sentinel' THEN 0 WHEN 'bad-header' THEN 0 WHEN 'no-envelope' THEN 0 WHEN 'over-cap' THEN 0 WHEN 'bytes-after-end' THEN 0 WHEN 'envelope-digest' THEN 0 WHEN 'not-json' THEN 0 WHEN 'not-an-object' THEN 0 WHEN 'duplicate-key' THEN 0 WHEN 'not-finite' THEN 0 WHEN 'lone-surrogate' THEN 0 WHEN 'too-deep' THEN 0 WHEN 'integer-size' THEN 0 WHEN 'two-documents' THEN 0 WHEN 'no-trailer' THEN 0 WHEN 'trailer-not-last' THEN 0 WHEN 'count-not-first' THEN 0 WHEN 'marks' THEN 0 WHEN 'unknown-key' THEN 0 WHEN 'missing-key' THEN 0 WHEN 'wrong-type' THEN 0 WHEN 'wrong-value' THEN 0 WHEN 'bad-id' THEN 0 WHEN 'wrong-count' THEN 0 WHEN 'blank-statement' THEN 0 WHEN 'contradiction' THEN 0 WHEN 'id-reused' THEN 0 WHEN 'retry-of-live-job' THEN 0 WHEN 'statements-digest' THEN 0 WHEN 'down-digest' THEN 0 WHEN 'idle' THEN 0 WHEN 'reset' THEN 0 WHEN 'bad-stop' THEN 0 WHEN 'no-terminal' THEN 0 WHEN 'token-cap' THEN 0 WHEN 'input-cut' THEN 0 WHEN 'weak-evidence' THEN 0 WHEN 'unreachable' THEN 0 WHEN 'diff-over-cap' THEN 0 WHEN 'merge-conflict' THEN 0 WHEN 'stale-diff' THEN 0 WHEN 'stale-base' THEN 0 WHEN 'stale-policy' THEN 0 WHEN 'stale-fingerprint' THEN 0 WHEN 'sql-error' THEN 0 WHEN 'forbidden-statement' THEN 0 WHEN 'check-failed' THEN 0 WHEN 'statement-timeout' THEN 0 WHEN 'interrupted' THEN 0 WHEN 'target-fault' THEN 0 WHEN 'lost' THEN 0 WHEN 'complete' THEN 0 ELSE 1 END
BEGIN SELECT RAISE(ABORT, 'an attempt begins as received, with one event and a known signal'); END;
CREATE TRIGGER attempts_are_not_overwritten BEFORE INSERT ON attempts
WHEN NEW.n > 0 AND EXISTS (SELECT 1 FROM attempts WHERE n = NEW.n)
    OR EXISTS (SELECT 1 FROM attempts WHERE attempt_id = NEW.attempt_id)
    OR NEW.owner AND EXISTS (SELECT 1 FROM attempts WHERE job_id = NEW.job_id AND owner = 1)
BEGIN SELECT RAISE(ABORT, 'an attempt is never overwritten, and a job has one owner'); END;
CREATE TRIGGER attempts_are_numbered AFTER INSERT ON attempts
WHEN NEW.n IS NOT 1 AND NOT EXISTS (SELECT 1 FROM attempts WHERE n = NEW.n - 1)
BEGIN SELECT RAISE(ABORT, 'attempts are numbered without a gap'); END;
CREATE TRIGGER attempts_stay BEFORE DELETE ON attempts
BEGIN SELECT RAISE(ABORT, 'an attempt is never deleted'); END;
CREATE TRIGGER identity_stays BEFORE UPDATE OF n, attempt_id, job_id, owner, kind, received_bytes, expected_bytes, body_sha256, sha256, stmt_count, level, submitter, received_at ON attempts
BEGIN SELECT RAISE(ABORT, 'what identifies an attempt never changes'); END;
CREATE TRIGGER moves_are_legal BEFORE UPDATE OF state, signal, target, evidence, detail, statements_run, approver, approved_fingerprint, fingerprint_before, fingerprint_after, backup, statement_rows, changed_at ON attempts
WHEN CASE OLD.state || '>' || NEW.state WHEN 'received>truncated' THEN 0 WHEN 'received>rejected' THEN 0 WHEN 'received>quarantined' THEN 0 WHEN 'received>incomplete' THEN 0 WHEN 'received>staged' THEN 0 WHEN 'staged>approved' THEN 0 WHEN 'staged>declined' THEN 0 WHEN 'staged>stale' THEN 0 WHEN 'approved>applying' THEN 0 WHEN 'approved>staged' THEN 0 WHEN 'approved>stale' THEN 0 WHEN 'applying>applied' THEN 0 WHEN 'applying>failed' THEN 0 WHEN 'applying>partial' THEN 0 WHEN 'partial>settled' THEN 0 ELSE 1 END
BEGIN SELECT RAISE(ABORT, 'not a legal move; a finished attempt never moves, and facts change only with a move'); END;
CREATE TRIGGER signals_are_known BEFORE UPDATE OF signal ON attempts
WHEN CASE NEW.signal WHEN 'empty' THEN 0 WHEN 'header-cut' THEN 0 WHEN 'body-cut' THEN 0 WHEN 'no-sentinel' THEN 0 WHEN 'bad-header' THEN 0 WHEN 'no-envelope' THEN 0 WHEN 'over-cap' THEN 0 WHEN 'bytes-after-end' THEN 0 WHEN 'envelope-digest' THEN 0 WHEN 'not-json' THEN 0 WHEN 'not-an-object' THEN 0 WHEN 'duplicate-key' THEN 0 WHEN 'not-finite' THEN 0 WHEN 'lone-surrogate' THEN 0 WHEN 'too-deep' THEN 0 WHEN 'integer-size' THEN 0 WHEN 'two-documents' THEN 0 WHEN 'no-trailer' THEN 0 WHEN 'trailer-not-last' THEN 0 WHEN 'count-not-first' THEN 0 WHEN 'marks' THEN 0 WHEN 'unknown-key' THEN 0 WHEN 'missing-key' THEN 0 WHEN 'wrong-type' THEN 0 WHEN 'wrong-value' THEN 0 WHEN 'bad-id' THEN 0 WHEN 'wrong-count' THEN 0 WHEN 'blank-statement' THEN 0 WHEN 'contradiction' THEN 0 WHEN 'id-reused' THEN 0 WHEN 'retry-of-live-job' THEN 0 WHEN 'statements-digest' THEN 0 WHEN 'down-digest' THEN 0 WHEN 'idle' THEN 0 WHEN 'reset' THEN 0 WHEN 'bad-stop' THEN 0 WHEN 'no-terminal' THEN 0 WHEN 'token-cap' THEN 0 WHEN 'input-cut' THEN 0 WHEN 'weak-evidence' THEN 0 WHEN 'unreachable' THEN 0 WHEN 'diff-over-cap' THEN 0 WHEN 'merge-conflict' THEN 0 WHEN 'stale-diff' THEN 0 WHEN 'stale-base' THEN 0 WHEN 'stale-policy' THEN 0 WHEN 'stale-fingerprint' THEN 0 WHEN 'sql-error' THEN 0 WHEN 'forbidden-statement' THEN 0 WHEN 'check-failed' THEN 0 WHEN 'statement-timeout' THEN 0 WHEN 'interrupted' THEN 0 WHEN 'target-fault' THEN 0 WHEN 'lost' THEN 0 WHEN 'complete' THEN 0 ELSE 1 END
BEGIN SELECT RAISE(ABORT, 'not a known signal'); END;
CREATE TRIGGER target_stays BEFORE UPDATE OF target ON attempts
WHEN OLD.target IS NOT NULL AND NEW.target IS NOT OLD.target
BEGIN SELECT RAISE(ABORT, 'a target never changes'); END;
CREATE TRIGGER changes_have_their_event BEFORE UPDATE ON attempts
WHEN NEW.n IS NOT OLD.n OR NEW.events IS NOT OLD.events + 1 OR NOT EXISTS (
    SELECT 1 FROM events WHERE attempt = NEW.n AND seq = NEW.events AND hash = NEW.head
    AND coalesce(from_state, OLD.state) = OLD.state AND coalesce(to_state, OLD.state) = NEW.state)
BEGIN SELECT RAISE(ABORT, 'every change of an attempt has its event'); END;
CREATE TRIGGER events_are_not_overwritten BEFORE INSERT ON events
WHEN NEW.id > 0 AND EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
    OR NEW.attempt IS NOT NULL AND (
        NEW.seq = 1 AND NOT EXISTS (SELECT 1 FROM attempts WHERE n = NEW.attempt)
        OR NEW.seq IS NOT 1 + coalesce((SELECT max(seq) FROM events WHERE attempt = NEW.attempt), 0))
BEGIN SELECT RAISE(ABORT, 'an event continues the chain of its attempt and is never overwritten'); END;
CREATE TRIGGER events_are_numbered AFTER INSERT ON events
WHEN NEW.id IS NOT 1 AND NOT EXISTS (SELECT 1 FROM events WHERE id = NEW.id - 1)
BEGIN SELECT RAISE(ABORT, 'events are numbered without a gap'); END;
CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'an event is never deleted'); END;
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'an event never changes'); END;
CREATE TRIGGER bodies_come_with_the_attempt BEFORE INSERT ON bodies
WHEN EXISTS (SELECT 1 FROM bodies WHERE attempt = NEW.attempt)
    OR NOT EXISTS (SELECT 1 FROM attempts WHERE n = NEW.attempt AND state = 'received')
BEGIN SELECT RAISE(ABORT, 'bytes are kept while an attempt is recorded, once'); END;
CREATE TRIGGER bodies_stay BEFORE DELETE ON bodies
BEGIN SELECT RAISE(ABORT, 'kept bytes are never deleted'); END;
CREATE TRIGGER bodies_never_change BEFORE UPDATE ON bodies
BEGIN SELECT RAISE(ABORT, 'kept bytes never change'); END;
CREATE TRIGGER checkpoints_continue BEFORE INSERT ON checkpoints
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE n = NEW.n)
    OR NEW.first_event IS NOT 1 + coalesce((SELECT last_event FROM checkpoints ORDER BY n DESC LIMIT 1), 0)
    OR NOT EXISTS (SELECT 1 FROM events WHERE id = NEW.last_event)
BEGIN SELECT RAISE(ABORT, 'a checkpoint continues the one before'); END;
CREATE TRIGGER checkpoints_stay BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'a checkpoint is never deleted'); END;
CREATE TRIGGER checkpoints_never_change BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'a checkpoint never changes'); END;
CREATE TRIGGER decisions_begin_pending BEFORE INSERT ON decisions
WHEN NEW.state IS NOT 'pending' OR NEW.events IS NOT 1 OR CASE NEW.signal WHEN 'empty' THEN 0 WHEN 'header-cut' THEN 0 WHEN 'body-cut' THEN 0 WHEN 'no-sentinel' THEN 0 WHEN 'bad-header' THEN 0 WHEN 'no-envelope' THEN 0 WHEN 'over-cap' THEN 0 WHEN 'bytes-after-end' THEN 0 WHEN 'envelope-digest' THEN 0 WHEN 'not-json' THEN 0 WHEN 'not-an-object' THEN 0 WHEN 'duplicate-key' THEN 0 WHEN 'not-finite' THEN 0 WHEN 'lone-surrogate' THEN 0 WHEN 'too-deep' THEN 0 WHEN 'integer-size' THEN 0 WHEN 'two-documents' THEN 0 WHEN 'no-trailer' THEN 0 WHEN 'trailer-not-last' THEN 0 WHEN 'count-not-first' THEN 0 WHEN 'marks' THEN 0 WHEN 'unknown-key' THEN 0 WHEN 'missing-key' THEN 0 WHEN 'wrong-type' THEN 0 WHEN 'wrong-value' THEN 0 WHEN 'bad-id' THEN 0 WHEN 'wrong-count' THEN 0 WHEN 'blank-statement' THEN 0 WHEN 'contradiction' THEN 0 WHEN 'id-reused' THEN 0 WHEN 'retry-of-live-job' THEN 0 WHEN 'statements-digest' THEN 0 WHEN 'down-digest' THEN 0 WHEN 'idle' THEN 0 WHEN 'reset' THEN 0 WHEN 'bad-stop' THEN 0 WHEN 'no-terminal' THEN 0 WHEN 'token-cap' THEN 0 WHEN 'input-cut' THEN 0 WHEN 'weak-evidence' THEN 0 WHEN 'unreachable' THEN 0 WHEN 'diff-over-cap' THEN 0 WHEN 'merge-conflict' THEN 0 WHEN 'stale-diff' THEN 0 WHEN 'stale-base' THEN 0 WHEN 'stale-policy' THEN 0 WHEN 'stale-fingerprint' THEN 0 WHEN 'sql-error' THEN 0 WHEN 'forbidden-statement' THEN 0 WHEN 'check-failed' THEN 0 WHEN 'statement-timeout' THEN 0 WHEN 'interrupted' THEN 0 WHEN 'target-fault' THEN 0 WHEN 'lost' THEN 0 WHEN 'complete' THEN 0 ELSE 1 END
BEGIN SELECT RAISE(ABORT, 'a decision begins as pending, with one event and a known signal'); END;
CREATE TRIGGER decisions_are_not_overwritten BEFORE INSERT ON decisions
WHEN NEW.n > 0 AND EXISTS (SELECT 1 FROM decisions WHERE n = NEW.n)
    OR EXISTS (SELECT 1 FROM decisions WHERE decision_id = NEW.decision_id)
BEGIN SELECT RAISE(ABORT, 'a decision is never overwritten'); END;
CREATE TRIGGER decisions_are_numbered AFTER INSERT ON decisions
WHEN NEW.n IS NOT 1 AND NOT EXISTS (SELECT 1 FROM decisions WHERE n = NEW.n - 1)
BEGIN SELECT RAISE(ABORT, 'decisions are numbered without a gap'); END;
CREATE TRIGGER decisions_stay BEFORE DELETE ON decisions
BEGIN SELECT RAISE(ABORT, 'a decision is never deleted'); END;
CREATE TRIGGER decision_identity_stays BEFORE UPDATE OF n, decision_id, repository, ref, base, head, merge_tree, records_sha, diff_sha, policy_version, policy_sha256, required, submitter, opened_at ON decisions
BEGIN SELECT RAISE(ABORT, 'what a decision is about never changes'); END;
CREATE TRIGGER decision_moves_are_legal BEFORE UPDATE OF state, signal, evidence, detail, merged, approver, changed_at ON decisions
WHEN CASE OLD.state || '>' || NEW.state WHEN 'pending>pass' THEN 0 WHEN 'pending>fail' THEN 0 WHEN 'pending>incomplete' THEN 0 WHEN 'pass>fail' THEN 0 WHEN 'pass>merged' THEN 0 WHEN 'pass>stale' THEN 0 ELSE 1 END
BEGIN SELECT RAISE(ABORT, 'not a legal move of a decision; facts change only with a move'); END;
CREATE TRIGGER decision_signals_are_known BEFORE UPDATE OF signal ON decisions
WHEN CASE NEW.signal WHEN 'empty' THEN 0 WHEN 'header-cut' THEN 0 WHEN 'body-cut' THEN 0 WHEN 'no-sentinel' THEN 0 WHEN 'bad-header' THEN 0 WHEN 'no-envelope' THEN 0 WHEN 'over-cap' THEN 0 WHEN 'bytes-after-end' THEN 0 WHEN 'envelope-digest' THEN 0 WHEN 'not-json' THEN 0 WHEN 'not-an-object' THEN 0 WHEN 'duplicate-key' THEN 0 WHEN 'not-finite' THEN 0 WHEN 'lone-surrogate' THEN 0 WHEN 'too-deep' THEN 0 WHEN 'integer-size' THEN 0 WHEN 'two-documents' THEN 0 WHEN 'no-trailer' THEN 0 WHEN 'trailer-not-last' THEN 0 WHEN 'count-not-first' THEN 0 WHEN 'marks' THEN 0 WHEN 'unknown-key' THEN 0 WHEN 'missing-key' THEN 0 WHEN 'wrong-type' THEN 0 WHEN 'wrong-value' THEN 0 WHEN 'bad-id' THEN 0 WHEN 'wrong-count' THEN 0 WHEN 'blank-statement' THEN 0 WHEN 'contradiction' THEN 0 WHEN 'id-reused' THEN 0 WHEN 'retry-of-live-job' THEN 0 WHEN 'statements-digest' THEN 0 WHEN 'down-digest' THEN 0 WHEN 'idle' THEN 0 WHEN 'reset' THEN 0 WHEN 'bad-stop' THEN 0 WHEN 'no-terminal' THEN 0 WHEN 'token-cap' THEN 0 WHEN 'input-cut' THEN 0 WHEN 'weak-evidence' THEN 0 WHEN 'unreachable' THEN 0 WHEN 'diff-over-cap' THEN 0 WHEN 'merge-conflict' THEN 0 WHEN 'stale-diff' THEN 0 WHEN 'stale-base' THEN 0 WHEN 'stale-policy' THEN 0 WHEN 'stale-fingerprint' THEN 0 WHEN 'sql-error' THEN 0 WHEN 'forbidden-statement' THEN 0 WHEN 'check-failed' THEN 0 WHEN 'statement-timeout' THEN 0 WHEN 'interrupted' THEN 0 WHEN 'target-fault' THEN 0 WHEN 'lost' THEN 0 WHEN 'complete' THEN 0 ELSE 1 END
BEGIN SELECT RAISE(ABORT, 'not a known signal'); END;
CREATE TRIGGER a_pass_needs_every_reviewer BEFORE UPDATE OF state ON decisions
WHEN NEW.state IN ('pass', 'merged') AND (EXISTS (SELECT 1 FROM decisions d JOIN reviews r ON r.decision = d.n
    WHERE d.diff_sha = NEW.diff_sha AND d.policy_sha256 = NEW.policy_sha256 AND r.state = 'fail'
    AND r.purpose <> 'advice')
    OR EXISTS (SELECT 1 FROM json_each(NEW.required) AS wanted WHERE NOT EXISTS (SELECT 1 FROM reviews r
    WHERE r.decision = NEW.n AND r.reviewer = wanted.value AND r.state = 'pass'
    AND r.purpose <> 'advice')))
BEGIN SELECT RAISE(ABORT, 'every required reviewer must have passed it, and no complete review of the same diff may have failed it'); END;
CREATE TRIGGER decision_changes_have_their_event BEFORE UPDATE ON decisions
WHEN NEW.n IS NOT OLD.n OR NEW.events IS NOT OLD.events + 1 OR NOT EXISTS (
    SELECT 1 FROM events WHERE decision = NEW.n AND seq = NEW.events AND hash = NEW.chain)
BEGIN SELECT RAISE(ABORT, 'every change of a decision has its event'); END;
CREATE TRIGGER decision_events_continue BEFORE INSERT ON events
WHEN NEW.decision IS NOT NULL AND (
    NEW.seq = 1 AND NOT EXISTS (SELECT 1 FROM decisions WHERE n = NEW.decision)
    OR NEW.seq IS NOT 1 + coalesce((SELECT max(seq) FROM events WHERE decision = NEW.decision), 0))
BEGIN SELECT RAISE(ABORT, 'an event continues the chain of its decision'); END;
CREATE TRIGGER reviews_begin_asked BEFORE INSERT ON reviews
WHEN NEW.state IS NOT 'asked' OR NEW.n > 0 AND EXISTS (SELECT 1 FROM reviews WHERE n = NEW.n)
    OR EXISTS (SELECT 1 FROM reviews WHERE review_id = NEW.review_id)
    OR NOT EXISTS (SELECT 1 FROM decisions WHERE n = NEW.decision)
BEGIN SELECT RAISE(ABORT, 'a review begins as asked, and is never overwritten'); END;
CREATE TRIGGER reviews_are_numbered AFTER INSERT ON reviews
WHEN NEW.n IS NOT 1 AND NOT EXISTS (SELECT 1 FROM reviews WHERE n = NEW.n - 1)
BEGIN SELECT RAISE(ABORT, 'reviews are numbered without a gap'); END;
CREATE TRIGGER reviews_stay BEFORE DELETE ON reviews
BEGIN SELECT RAISE(ABORT, 'a review is never deleted'); END;
CREATE TRIGGER review_identity_stays BEFORE UPDATE OF n, review_id, decision, reviewer, purpose, model, prompt_sha256, shown_sha256, asked_at ON reviews
BEGIN SELECT RAISE(ABORT, 'how a reviewer was asked never changes'); END;
CREATE TRIGGER review_moves_are_legal BEFORE UPDATE OF state, signal, received_bytes, expected_bytes, body_sha256, level, evidence, detail, blocking, advisory, answered_at ON reviews
WHEN CASE OLD.state || '>' || NEW.state WHEN 'asked>pass' THEN 0 WHEN 'asked>fail' THEN 0 WHEN 'asked>incomplete' THEN 0 ELSE 1 END OR CASE NEW.signal WHEN 'empty' THEN 0 WHEN 'header-cut' THEN 0 WHEN 'body-cut' THEN 0 WHEN 'no-sentinel' THEN 0 WHEN 'bad-header' THEN 0 WHEN 'no-envelope' THEN 0 WHEN 'over-cap' THEN 0 WHEN 'bytes-after-end' THEN 0 WHEN 'envelope-digest' THEN 0 WHEN 'not-json' THEN 0 WHEN 'not-an-object' THEN 0 WHEN 'duplicate-key' THEN 0 WHEN 'not-finite' THEN 0 WHEN 'lone-surrogate' THEN 0 WHEN 'too-deep' THEN 0 WHEN 'integer-size' THEN 0 WHEN 'two-documents' THEN 0 WHEN 'no-trailer' THEN 0 WHEN 'trailer-not-last' THEN 0 WHEN 'count-not-first' THEN 0 WHEN 'marks' THEN 0 WHEN 'unknown-key' THEN 0 WHEN 'missing-key' THEN 0 WHEN 'wrong-type' THEN 0 WHEN 'wrong-value' THEN 0 WHEN 'bad-id' THEN 0 WHEN 'wrong-count' THEN 0 WHEN 'blank-statement' THEN 0 WHEN 'contradiction' THEN 0 WHEN 'id-reused' THEN 0 WHEN 'retry-of-live-job' THEN 0 WHEN 'statements-digest' THEN 0 WHEN 'down-digest' THEN 0 WHEN 'idle' THEN 0 WHEN 'reset' THEN 0 WHEN 'bad-stop' THEN 0 WHEN 'no-terminal' THEN 0 WHEN 'token-cap' THEN 0 WHEN 'input-cut' THEN 0 WHEN 'weak-evidence' THEN 0 WHEN 'unreachable' THEN 0 WHEN 'diff-over-cap' THEN 0 WHEN 'merge-conflict' THEN 0 WHEN 'stale-diff' THEN 0 WHEN 'stale-base' THEN 0 WHEN 'stale-policy' THEN 0 WHEN 'stale-fingerprint' THEN 0 WHEN 'sql-error' THEN 0 WHEN 'forbidden-statement' THEN 0 WHEN 'check-failed' THEN 0 WHEN 'statement-timeout' THEN 0 WHEN 'interrupted' THEN 0 WHEN 'target-fault' THEN 0 WHEN 'lost' THEN 0 WHEN 'complete' THEN 0 ELSE 1 END
BEGIN SELECT RAISE(ABORT, 'not a legal move of a review; a finished review never moves'); END;
CREATE TRIGGER answers_come_once BEFORE INSERT ON answers
WHEN EXISTS (SELECT 1 FROM answers WHERE review = NEW.review)
    OR NOT EXISTS (SELECT 1 FROM reviews WHERE n = NEW.review AND state = 'asked')
BEGIN SELECT RAISE(ABORT, 'an answer is kept while its review is asked, once'); END;
CREATE TRIGGER answers_stay BEFORE DELETE ON answers
BEGIN SELECT RAISE(ABORT, 'a kept answer is never deleted'); END;
CREATE TRIGGER answers_never_change BEFORE UPDATE ON answers
BEGIN SELECT RAISE(ABORT, 'a kept answer never changes'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('attempts',13);
INSERT INTO "sqlite_sequence" VALUES('events',51);
INSERT INTO "sqlite_sequence" VALUES('decisions',1);
INSERT INTO "sqlite_sequence" VALUES('reviews',2);
INSERT INTO "sqlite_sequence" VALUES('checkpoints',1);
COMMIT;
PRAGMA user_version=1;
