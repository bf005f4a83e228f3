"""Sealing what an earlier release wrote in the clear, some hundred rows at a time.

It can be stopped at any row and goes on where it was; two concurrent runs do the work once. A row that changed
meanwhile is left alone.
"""

from meetcore.adapters.postgres.columns import seal_text
from meetcore.adapters.postgres.meetings.rows import JOIN_URL
from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.ports.cipher import Cipher

PORTION = 500

# Some meetings whose links are stored unsealed.
_FIND = """
SELECT account_id, id, join_url FROM meetings WHERE join_url IS NOT NULL LIMIT %(portion)s
"""

# Puts sealed links in their place.
_SEAL = """
UPDATE meetings m SET sealed_join_url = sealed.link, join_url = NULL
FROM unnest(%(account_ids)s::uuid[], %(ids)s::uuid[], %(links)s::bytea[], %(plain)s::text[])
    AS sealed (account_id, id, link, plain)
WHERE m.account_id = sealed.account_id AND m.id = sealed.id AND m.join_url = sealed.plain
"""


async def seal_join_urls(pool: Pool, cipher: Cipher, *, portion: int = PORTION, portions: int = 100) -> int:
    """Seal unsealed links of meetings, so many portions at most; return how many were sealed.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    done = 0
    for _ in range(portions):
        with translated():
            async with pool.connection() as connection:
                cursor = await connection.execute(_FIND, {"portion": portion})
                found = await cursor.fetchall()
                if not found:
                    break
                contexts = [JOIN_URL.format_map(row) for row in found]
                links = [row["join_url"] for row in found]
                sealed = {
                    "account_ids": [row["account_id"] for row in found],
                    "ids": [row["id"] for row in found],
                    "links": [
                        seal_text(cipher, link, context)
                        for link, context in zip(links, contexts, strict=True)
                    ],
                    "plain": links,
                }
                done += (await connection.execute(_SEAL, sealed)).rowcount
    return done
