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
INSERT INTO "attempts" VALUES(1,'att_01m8p570g0fpmgnpm3js8epywb','old-applied',1,'plan','applied','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',5,X'BCB915103714D8A4B3A3DB672F25A661592A8DF8126675E1612F33258160FD39');
INSERT INTO "attempts" VALUES(2,'att_01m8p570g08aehhywx6pgcye07','old-applying',1,'plan','applying','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',4,X'CF4A7F940166DF3D237A4828E01CB763C54108D24E2469FD1FC6DF6CED481D0F');
INSERT INTO "attempts" VALUES(3,'att_01m8p570g00fdfjszw2kmzve4d','old-approved',1,'plan','approved','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',3,X'35D35A123C63B8C4CDEF2EB143D23B849CA59DA6A64C9A33693CF9C9CF27E9C1');
INSERT INTO "attempts" VALUES(4,'att_01m8p570g005yqwktk605yshjp','old-declined',1,'plan','declined','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',3,X'E2D96EE9AEA7FD7AAB53FA8818C9AE23A94733D077A5ABC29A0F587D8460CB6B');
INSERT INTO "attempts" VALUES(5,'att_01m8p570g0c5kbd6ybcf5c79da','old-failed',1,'plan','failed','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',5,X'B447D6461A73764E667F0D24A96A4E2308C830AF1C20340BDAB68FCAD685B1DE');
INSERT INTO "attempts" VALUES(6,'att_01m8p570g0m8he7ks0ajjcnvnw','old-incomplete',1,'plan','incomplete','body-cut',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',NULL,NULL,NULL,'agent',NULL,'','the body ended early',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'EE4FD596415CB5B6F2B86C29265283BDED69B23E6E0DE6388E56FF6ADC9B37C4');
INSERT INTO "attempts" VALUES(7,'att_01m8p570g0w4w09x112zcdhda5','old-partial',1,'plan','partial','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',5,X'47E705EED3C37AFD337D7BBA0F360461673CD63A1E35B09DA92F61A1EF027498');
INSERT INTO "attempts" VALUES(8,'att_01m8p570g05greb42ntj6bcnhk','old-quarantined',1,'plan','quarantined','body-cut',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',NULL,NULL,NULL,'agent',NULL,'','the body ended early',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'A908BDBD487E77D29557300E56593353318F2DD2558B19775AA9D2598D0B71CC');
INSERT INTO "attempts" VALUES(9,'att_01m8p570g0h4jef9g3j4sj60q4','old-rejected',1,'plan','rejected','body-cut',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',NULL,NULL,NULL,'agent',NULL,'','the body ended early',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'4858A7A343112D9D535E91F2FDCE0EBC67C5242F4998A4F0429243375CD8E55A');
INSERT INTO "attempts" VALUES(10,'att_01m8p570g0trs2v8533d7kg21g','old-settled',1,'plan','settled','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',6,X'B5D0B4792F50E0F43C4340A73512D7D306EDB645FD0AF25A4F975297A92C174A');
INSERT INTO "attempts" VALUES(11,'att_01m8p570g0fjgpmeywnepwn73j','old-staged',1,'plan','staged','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'20BCB66EFC0FAA201C11CC130DE4C1CEE03C20075C4533AF2AF94D6AE0CCEF62');
INSERT INTO "attempts" VALUES(12,'att_01m8p570g08w7q8rk0mevkxs7h','old-stale',1,'plan','stale','complete',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c','d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',3,'sealed','agent','sqlite:/srv/shop.db','envelope-length
envelope-sha256
sentinel','',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',3,X'C47C8DADBB874BF04B800958329A4BC8493900BFDA41C69B6E8EA7B5F01D8915');
INSERT INTO "attempts" VALUES(13,'att_01m8p570g0rc33n9mcjjk76w4d','old-truncated',1,'plan','truncated','body-cut',23,23,'d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c',NULL,NULL,NULL,'agent',NULL,'','the body ended early',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','2026-11-30T12:00:00.000250Z',2,X'7402CECABF27DC7698644BA4E2B0884405DDB379C054F1CFF03B3041E51462E0');
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
INSERT INTO "checkpoints" VALUES(1,1,51,'2026-11-30T12:00:00.000250Z',X'080A41FFBD5C1A5EE99D238FA2312AD0C0471F9C4DCD99628F64E9E1DCE881CD');
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
INSERT INTO "decisions" VALUES(1,'dec_01m8p570g0h30f8ea3g7c6h8hh','file:///srv/app.git','refs/heads/main','1111111111111111111111111111111111111111','2222222222222222222222222222222222222222','3333333333333333333333333333333333333333','4444444444444444444444444444444444444444444444444444444444444444','dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd','gate-2026-07','9999999999999999999999999999999999999999999999999999999999999999','["sec","style"]','ci','2026-11-30T12:00:00.000250Z','merged','complete','sealed','','5555555555555555555555555555555555555555','ann','2026-11-30T12:00:00.000250Z',7,X'A22C449A1E94E4981FB84B3E0BD7502A4656434E12B7AC856C6D455F71483529');
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
INSERT INTO "events" VALUES(1,1,NULL,1,X'073ECFEDD6D81800ED4E9684CEEB8CC2BDF5F8C1779503108894217D02B0893F','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-applied","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(2,1,NULL,2,X'87966FCAF9929E64305FB2485D7C59878C864273D2E5440E2D3EC4E731CB9163','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(3,1,NULL,3,X'CF8B274951C8577BD23868E60412A597188030948FFA2D61464641F78A00BCE1','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(4,1,NULL,4,X'6484EB0A02E09A5B6C8B6A4E667AE94E8CB6D00D8E35AB40EA54166C226705B2','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(5,1,NULL,5,X'BCB915103714D8A4B3A3DB672F25A661592A8DF8126675E1612F33258160FD39','2026-11-30T12:00:00.000250Z','moved','applying','applied','{}');
INSERT INTO "events" VALUES(6,2,NULL,1,X'2027909B1FBEC67C820060DD404C4ED302D4C0487A52E7ECB02FE820024C5438','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-applying","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(7,2,NULL,2,X'80C0C327DE9468BC4AB62ACA240035BBE9191D66FC662219F7C713F3C2E730A3','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(8,2,NULL,3,X'A4EDD3B5D95A7BC485C0E8EC545C734542E9E0844A42E75006F8CA67475ABE8B','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(9,2,NULL,4,X'CF4A7F940166DF3D237A4828E01CB763C54108D24E2469FD1FC6DF6CED481D0F','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(10,3,NULL,1,X'E0B91D36DFD6CB7F2ADFBA96D94282964BF2811BF37F1AFC937C934CDD202475','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-approved","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(11,3,NULL,2,X'BF93A25151C1388D0F36A71686B036B4525EFA6F1C6F911D11CFBB911727FD90','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(12,3,NULL,3,X'35D35A123C63B8C4CDEF2EB143D23B849CA59DA6A64C9A33693CF9C9CF27E9C1','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(13,4,NULL,1,X'B8CF143A23F91FF7FC075596DD868327A2D32E85A3D6678455BED02D630339F6','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-declined","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(14,4,NULL,2,X'96AE36CE04E75498B898D9B92B842B2A5DADB72D69104D09753FB7F8928174B0','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(15,4,NULL,3,X'E2D96EE9AEA7FD7AAB53FA8818C9AE23A94733D077A5ABC29A0F587D8460CB6B','2026-11-30T12:00:00.000250Z','moved','staged','declined','{}');
INSERT INTO "events" VALUES(16,5,NULL,1,X'D65ECF98244749F536E99401B0349A70B5ADB9DDEFC8A3A1BC2A1FDDD2D56DF5','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-failed","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(17,5,NULL,2,X'46081D40FE104560711FACC6D1AC43016D43AA1DD16FCB1BFBB5820F5EDDC5D8','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(18,5,NULL,3,X'1E7BF6DB8776CA627DA4929D7529CE0796FF105D3F247A2C658389AA2E705178','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(19,5,NULL,4,X'B8C95DE7AD7470E38AA447CDF805B358F848200C7922F20C79D0CE40440735F7','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(20,5,NULL,5,X'B447D6461A73764E667F0D24A96A4E2308C830AF1C20340BDAB68FCAD685B1DE','2026-11-30T12:00:00.000250Z','moved','applying','failed','{}');
INSERT INTO "events" VALUES(21,6,NULL,1,X'8A346923340EBFC970122A7E69C1E83A0CCB21D5E1A7A0FA69AA4B32651AD6C4','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-incomplete","owner":true,"kind":"plan","signal":"body-cut","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","evidence":[],"detail":"the body ended early","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(22,6,NULL,2,X'EE4FD596415CB5B6F2B86C29265283BDED69B23E6E0DE6388E56FF6ADC9B37C4','2026-11-30T12:00:00.000250Z','moved','received','incomplete','{}');
INSERT INTO "events" VALUES(23,7,NULL,1,X'F78440DCE0BDB0F042CD9D953D457F1B81679DFBD2BFC16D3B6E278AF63916F8','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-partial","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(24,7,NULL,2,X'F2B48C15E47ECE44CCCF54B4BF024DD8BAA23BC0A3C52327BDA2AA7EF629FD4C','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(25,7,NULL,3,X'192E0B68E25D032F800BBEE214AC997A2D9904B0FD05330C1C66FE58D22D833D','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(26,7,NULL,4,X'B8EDC5AE07FAC14D7ABF73BF30A7781C64AEC68BB3F87EDEA72E4CEC2CBBDBA2','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(27,7,NULL,5,X'47E705EED3C37AFD337D7BBA0F360461673CD63A1E35B09DA92F61A1EF027498','2026-11-30T12:00:00.000250Z','moved','applying','partial','{}');
INSERT INTO "events" VALUES(28,8,NULL,1,X'2FABED8877A0A93926FE5A031DB8BD6201A3B58209C07F609F9E19BA6820900D','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-quarantined","owner":true,"kind":"plan","signal":"body-cut","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","evidence":[],"detail":"the body ended early","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(29,8,NULL,2,X'A908BDBD487E77D29557300E56593353318F2DD2558B19775AA9D2598D0B71CC','2026-11-30T12:00:00.000250Z','moved','received','quarantined','{}');
INSERT INTO "events" VALUES(30,9,NULL,1,X'DDB169C9FFDFEBFFC81726EEDAC17E37E961D801ED0936A1882219AFDDDF0C7C','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-rejected","owner":true,"kind":"plan","signal":"body-cut","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","evidence":[],"detail":"the body ended early","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(31,9,NULL,2,X'4858A7A343112D9D535E91F2FDCE0EBC67C5242F4998A4F0429243375CD8E55A','2026-11-30T12:00:00.000250Z','moved','received','rejected','{}');
INSERT INTO "events" VALUES(32,10,NULL,1,X'3CCD163B6A4988E1D64B2A3CA3D2089D5C9D070F095A2E54D3C58F4C9AA4ADCB','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-settled","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(33,10,NULL,2,X'B4ED3169EEDF7AD3DEDE5EDBEAB00806A607FF01B3A0CDE0220051943D62B115','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(34,10,NULL,3,X'61D31BD04E19B00DB2BB0782E2C8D923FB5280F71906BA15C31E21F69AE1F5EC','2026-11-30T12:00:00.000250Z','moved','staged','approved','{}');
INSERT INTO "events" VALUES(35,10,NULL,4,X'E5952B93D266588EB051E0DD806D9901DB7FA1255387B3B4817CEDF1C2F6DA99','2026-11-30T12:00:00.000250Z','moved','approved','applying','{}');
INSERT INTO "events" VALUES(36,10,NULL,5,X'8B92BBA227CAA8735A9301EEE7AEE75588B2941865D5C46D472A3E46F7E6206B','2026-11-30T12:00:00.000250Z','moved','applying','partial','{}');
INSERT INTO "events" VALUES(37,10,NULL,6,X'B5D0B4792F50E0F43C4340A73512D7D306EDB645FD0AF25A4F975297A92C174A','2026-11-30T12:00:00.000250Z','moved','partial','settled','{}');
INSERT INTO "events" VALUES(38,11,NULL,1,X'78EDEFD33282929B5A47F45E66EA0A7585A72E914A3D42F757E131391E0D1DF9','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-staged","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(39,11,NULL,2,X'20BCB66EFC0FAA201C11CC130DE4C1CEE03C20075C4533AF2AF94D6AE0CCEF62','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(40,12,NULL,1,X'C9F3EECFCA055FE845B92277A68267DDE66A9FA200539C165E838CB7945D6B27','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-stale","owner":true,"kind":"plan","signal":"complete","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","stmt_count":3,"target":"sqlite:/srv/shop.db","level":"sealed","evidence":["envelope-length","envelope-sha256","sentinel"],"detail":"","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(41,12,NULL,2,X'840DABB18364C35499E546B40A678731BC29487BA614A703615F25D2FD26EABD','2026-11-30T12:00:00.000250Z','moved','received','staged','{}');
INSERT INTO "events" VALUES(42,12,NULL,3,X'C47C8DADBB874BF04B800958329A4BC8493900BFDA41C69B6E8EA7B5F01D8915','2026-11-30T12:00:00.000250Z','moved','staged','stale','{}');
INSERT INTO "events" VALUES(43,13,NULL,1,X'2BE7A5C17FBEACAAE571B1DC4951525B3026204146D46AD06B3D3FE67670CC08','2026-11-30T12:00:00.000250Z','received',NULL,'received','{"set":{"job_id":"old-truncated","owner":true,"kind":"plan","signal":"body-cut","received_bytes":23,"expected_bytes":23,"body_sha256":"d54f44e9c669948c4bd88f0f810dde13c1e033b7429478871a9a6e44ce50490c","evidence":[],"detail":"the body ended early","submitter":"agent"},"body_kept":true}');
INSERT INTO "events" VALUES(44,13,NULL,2,X'7402CECABF27DC7698644BA4E2B0884405DDB379C054F1CFF03B3041E51462E0','2026-11-30T12:00:00.000250Z','moved','received','truncated','{}');
INSERT INTO "events" VALUES(45,NULL,1,1,X'A99F44466BE17DAA7C18BEDD5719A8D9025CFC434B4DB88A40FBE8EA3CC63E7C','2026-11-30T12:00:00.000250Z','opened',NULL,'pending','{"set":{"repository":"file:///srv/app.git","ref":"refs/heads/main","base":"1111111111111111111111111111111111111111","head":"2222222222222222222222222222222222222222","merge_tree":"3333333333333333333333333333333333333333","records_sha":"4444444444444444444444444444444444444444444444444444444444444444","diff_sha":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","policy_version":"gate-2026-07","policy_sha256":"9999999999999999999999999999999999999999999999999999999999999999","required":"[\"sec\",\"style\"]","submitter":"ci","signal":"complete","evidence":"","detail":"","merged":null,"approver":null}}');
INSERT INTO "events" VALUES(46,NULL,1,2,X'8EA582C87CF6BE00DB722A0577016660D4A7C4A3578CCB4A8C757C6FF6AB2901','2026-11-30T12:00:00.000250Z','asked',NULL,'asked','{"review":"dec_01m8p570g0h30f8ea3g7c6h8hh-sec","set":{"reviewer":"sec","review_id":"dec_01m8p570g0h30f8ea3g7c6h8hh-sec","purpose":"review"}}');
INSERT INTO "events" VALUES(47,NULL,1,3,X'15494420CB9DDA57ADDE3BC4AE0C2EAA064EF8680D9F67283C2D152697A0D2A0','2026-11-30T12:00:00.000250Z','answered','asked','pass','{"review":"dec_01m8p570g0h30f8ea3g7c6h8hh-sec","set":{"signal":"complete","received_bytes":7,"expected_bytes":3,"body_sha256":"24159270c08f53d923be1cf096323c8fe773a7cc12bee4a1636e8a8cd426545c","level":"sealed","evidence":"sealed\nsentinel","detail":"","blocking":0,"advisory":2},"body_kept":true}');
INSERT INTO "events" VALUES(48,NULL,1,4,X'E3CE73B02AB280DB8700A11BF1B5D00DBA0E497EC5B2DFE7C14D8A309F30EC5A','2026-11-30T12:00:00.000250Z','asked',NULL,'asked','{"review":"dec_01m8p570g0h30f8ea3g7c6h8hh-style","set":{"reviewer":"style","review_id":"dec_01m8p570g0h30f8ea3g7c6h8hh-style","purpose":"review"}}');
INSERT INTO "events" VALUES(49,NULL,1,5,X'C5216F69DA636F4FFCAE255E4AF06E0ED4838B36050E2B22CE7C3B8545FAAE3B','2026-11-30T12:00:00.000250Z','answered','asked','pass','{"review":"dec_01m8p570g0h30f8ea3g7c6h8hh-style","set":{"signal":"complete","received_bytes":7,"expected_bytes":3,"body_sha256":"24159270c08f53d923be1cf096323c8fe773a7cc12bee4a1636e8a8cd426545c","level":"sealed","evidence":"sealed\nsentinel","detail":"","blocking":0,"advisory":2},"body_kept":true}');
INSERT INTO "events" VALUES(50,NULL,1,6,X'9F61A3BBC0D276D1A4CDBEC6696200181A8754E0D005FA8FEDF47C4D98252880','2026-11-30T12:00:00.000250Z','moved','pending','pass','{"set":{"evidence":"sealed"}}');
INSERT INTO "events" VALUES(51,NULL,1,7,X'A22C449A1E94E4981FB84B3E0BD7502A4656434E12B7AC856C6D455F71483529','2026-11-30T12:00:00.000250Z','moved','pass','merged','{"set":{"merged":"5555555555555555555555555555555555555555","approver":"ann"}}');
CREATE TABLE reviews (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    review_id TEXT NOT NULL UNIQUE CHECK (review_id <> ''),
    decision INTEGER NOT NULL REFERENCES decisions (n),
    reviewer TEXT NOT NULL CHECK (reviewer <> ''),
    purpose TEXT NOT NULL CHECK (purpose IN ('review', 'elsewhere', 'carried', 'replay')),
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
INSERT INTO "reviews" VALUES(1,'dec_01m8p570g0h30f8ea3g7c6h8hh-sec',1,'sec','review',NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','pass','complete',7,3,'24159270c08f53d923be1cf096323c8fe773a7cc12bee4a1636e8a8cd426545c','sealed','sealed
sentinel','',0,2,'2026-11-30T12:00:00.000250Z');
INSERT INTO "reviews" VALUES(2,'dec_01m8p570g0h30f8ea3g7c6h8hh-style',1,'style','review',NULL,NULL,NULL,'2026-11-30T12:00:00.000250Z','pass','complete',7,3,'24159270c08f53d923be1cf096323c8fe773a7cc12bee4a1636e8a8cd426545c','sealed','sealed
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
    WHERE d.diff_sha = NEW.diff_sha AND d.policy_sha256 = NEW.policy_sha256 AND r.state = 'fail')
    OR EXISTS (SELECT 1 FROM json_each(NEW.required) AS wanted WHERE NOT EXISTS (SELECT 1 FROM reviews r
    WHERE r.decision = NEW.n AND r.reviewer = wanted.value AND r.state = 'pass')))
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
